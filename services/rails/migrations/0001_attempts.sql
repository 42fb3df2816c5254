-- Attempts, their history, the vault of raw payer details, and callbacks as they came in.
-- Why: what leaves the house is written down before it leaves, under the operation's id, so that nothing is charged twice.
-- Lock: none on existing tables, only new ones. breaking: no

create table attempts (
  operation_id text primary key,
  account text not null,
  mode text not null constraint attempts_mode check (mode in ('test', 'live')),
  -- The rail's name for the operation is our reference, whichever rail it is.
  reference text not null,
  amount_minor bigint not null check (amount_minor > 0),
  asset_id text not null,
  currency text not null,
  scale smallint not null,
  platform_id text not null,
  expires_at timestamptz not null,
  state text not null constraint attempts_state
    check (state in ('ready', 'sending', 'unknown', 'pending', 'success', 'failed', 'cancelled')),
  -- Null while no rail has it.
  rail text,
  connector text,
  -- Once a call was lost the attempt stays with its rail: another one could charge a second time.
  is_pinned boolean not null default false,
  sends integer not null default 0,
  payment_url text,
  deep_link text,
  qr text,
  failure_code text,
  rail_amount_minor bigint,
  rail_currency text,
  -- A success over another amount or currency than ours is told once and moves nothing.
  odd_amount_minor bigint,
  odd_currency text,
  -- Counts the news that were told.
  version bigint not null default 0,
  -- Who may send or take over; real time.
  lease_no bigint not null default 0,
  lease_until timestamptz,
  polls integer not null default 0,
  -- Business time; null when nothing is left to ask.
  next_poll_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint attempts_served check (state = 'ready' or (rail is not null and connector is not null))
) with (fillfactor = 80);

create unique index attempts_reference on attempts (reference);
create index attempts_poll on attempts (next_poll_at) where next_poll_at is not null;
create index attempts_poll_account on attempts (account, next_poll_at) where next_poll_at is not null and mode = 'test';

-- Everything a rail said, also what changed nothing: late, repeated or contradictory.
create table attempt_history (
  operation_id text not null references attempts,
  n bigint generated always as identity,
  source text not null check (source in ('call', 'callback', 'ask')),
  rail text,
  outcome text not null,
  failure_code text,
  rail_amount_minor bigint,
  rail_currency text,
  from_state text not null,
  -- Null: it changed nothing.
  to_state text,
  happened_at timestamptz not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (operation_id, n)
);

-- Raw payer details, sealed. `transient` rows that no attempt names are erased after 24 h of real time.
create table vault (
  operation_id text primary key,
  account text not null,
  mode text not null,
  retention text not null constraint vault_retention check (retention in ('transient', 'lasting')),
  key_id text not null,
  sealed bytea not null,
  kept_at timestamptz not null default clock_timestamp()
);

create index vault_transient on vault (kept_at) where retention = 'transient';
create index vault_key on vault (key_id);

-- Authentic callbacks. The body may hold payer details, so it is sealed like the vault.
create table callbacks (
  connector text not null,
  -- The operator's own name of the message: the same one again only counts.
  callback_id text not null,
  reference text not null,
  key_id text not null,
  sealed bytea not null,
  times_received integer not null default 1,
  received_at timestamptz not null default clock_timestamp(),
  matched_at timestamptz,
  primary key (connector, callback_id)
);

create index callbacks_unmatched on callbacks (received_at) where matched_at is null;
