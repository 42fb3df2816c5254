-- Claims: one row per operation that a creation began: its idempotency key, its client_ref, and the lease of its runner.
-- Why: idempotency lives where the write lives, so the claim commits with the draft it protects.
-- Lock: none on existing tables, only new ones. breaking: no

create table claims (
  operation_id text primary key,
  account text not null,
  mode text not null check (mode in ('test', 'live')),
  route text not null,
  kind text not null,
  key text,
  client_ref text,
  fingerprint bytea not null,
  -- running: a runner acts under lease_no until lease_until. told: a 5xx left the house at told_at; the retry or,
  -- after ten minutes, the sweeper takes over. done: the operation stands and answers replays.
  state text not null default 'running' check (state in ('running', 'told', 'done')),
  -- From here the operation can't be erased any more: it is visible under its client_ref.
  decided boolean not null default false,
  lease_no integer not null default 1,
  lease_until timestamptz,
  told_at timestamptz,
  -- When the sweeper takes over: 1 s after the lease ran out, or when the wait for a told merchant's retry is over.
  due_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint claims_running_has_lease check ((state = 'running') = (lease_until is not null)),
  constraint claims_told_has_time check (state <> 'told' or told_at is not null),
  constraint claims_open_is_due check ((state <> 'done') = (due_at is not null)),
  constraint claims_done_is_decided check (state <> 'done' or decided)
) with (fillfactor = 80);

create unique index claims_key on claims (account, mode, route, key) where key is not null;
create unique index claims_client_ref on claims (account, mode, kind, client_ref) where client_ref is not null;
-- What the sweeper looks through: only what isn't done.
create index claims_due on claims (due_at) where due_at is not null;
-- What is forgotten after a day: rows that still hold a key or exist for nothing else.
create index claims_to_forget on claims (created_at) where state = 'done' and (key is not null or client_ref is null);
