-- The simulated operator's own books: what it was asked for and what it has yet to do. It keeps no payer detail.
-- Why: the sandbox must survive crashes as an operator does, and its due times follow the account's test clock.
-- Lock: none on existing tables, only new ones. breaking: no

create table simulator_charges (
  reference text primary key,
  account text not null,
  mode text not null,
  rail text not null,
  amount_minor bigint not null,
  currency text not null,
  scale smallint not null,
  state text not null constraint simulator_charges_state
    check (state in ('turned_down', 'pending', 'success', 'failed', 'cancelled', 'expired')),
  failure_code text,
  -- Names the payment page; 256 random bits. Kept as it is, since asking for the charge must give the same URL again.
  token text not null,
  payment_url text,
  deep_link text,
  qr text,
  merchant_name text not null,
  description text,
  return_url text,
  cancel_url text,
  expires_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);

create unique index simulator_charges_token on simulator_charges (token);

create table simulator_events (
  event_id text primary key,
  reference text not null references simulator_charges,
  account text not null,
  mode text not null,
  news text not null constraint simulator_events_news check (news in ('settle', 'reject', 'cancel')),
  failure_code text,
  -- Times that the callback is sent; 0: the operator stays silent.
  copies smallint not null check (copies between 0 and 2),
  -- Business time.
  due_at timestamptz not null,
  -- When the charge took the move; until then a decision of a person takes its place.
  applied_at timestamptz,
  tries integer not null default 0,
  -- Real time of the next delivery; also the lease of the one under way.
  try_at timestamptz not null default clock_timestamp(),
  done_at timestamptz
);

create index simulator_events_due on simulator_events (due_at) where done_at is null;
create index simulator_events_account on simulator_events (account, due_at) where done_at is null and mode = 'test';
create index simulator_events_reference on simulator_events (reference);
