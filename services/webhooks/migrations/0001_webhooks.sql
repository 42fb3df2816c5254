-- Endpoints and what waits for them. New tables only, no lock on anything that stands; breaking: no.

create table endpoints (
  id                   bigint generated always as identity primary key,
  -- The id minted by the edge for the registration: an idempotent replay finds the endpoint by it.
  operation_id         text not null unique,
  account              text not null,
  -- As the merchant sent it, after URL normalisation: the same URL is never registered twice.
  url                  text not null,
  description          text,
  subscribed_events    text[] not null default '{}',
  is_active            boolean not null default true,
  secret_sealed        bytea not null,
  consecutive_failures integer not null default 0 check (consecutive_failures >= 0),
  -- Real time: a suspension is not moved by a test clock.
  suspended_until      timestamptz,
  last_delivery_at     timestamptz,
  last_success_at      timestamptz,
  last_failure_at      timestamptz,
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now(),
  unique (account, url)
);

-- One row per account that ever registered an endpoint: its lock makes "ten at most" hold under races.
create table endpoint_counts (
  account text primary key
);

-- One event for one endpoint. Due times are in the clock of the event's account and mode.
create table deliveries (
  id           text primary key,
  endpoint_id  bigint not null references endpoints (id) on delete cascade,
  event_id     text not null,
  account      text not null,
  mode         text not null check (mode in ('test', 'live')),
  event        text not null,
  operation_id text not null,
  version      bigint not null,
  body         text not null,
  status       text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts     integer not null default 0 check (attempts >= 0),
  occurred_at  timestamptz not null,
  due_at       timestamptz not null,
  -- Who is sending it now, in real time; a runner that died is succeeded when its lease has run out.
  lease_until  timestamptz,
  lease_no     integer not null default 0,
  last_error   text,
  last_status_code integer,
  ended_at     timestamptz,
  -- The same event reaches an endpoint as one delivery, however often the stream brings it.
  unique (endpoint_id, event_id)
);

-- Claiming walks one endpoint's pending deliveries by due time; ended ones are not in this index.
create index deliveries_due on deliveries (endpoint_id, mode, due_at) where status = 'pending';
-- Order per operation: is an earlier event of it still waiting for its first attempt?
create index deliveries_order on deliveries (endpoint_id, operation_id, version) where status = 'pending' and attempts = 0;
-- What is in flight, to keep every endpoint below its cap.
create index deliveries_leased on deliveries (endpoint_id) where lease_until is not null;
-- A test clock's work of one account.
create index deliveries_account on deliveries (account) where status = 'pending';
