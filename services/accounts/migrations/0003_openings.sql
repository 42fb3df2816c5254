-- Ledger accounts that are still to be opened: the durable intent before the call. A row is deleted when the ledger has
-- acknowledged it; opening twice is harmless, so whoever crashes in between only causes a repeat.
-- New table only: no lock on anything that serves. breaking: no
create table ledger_openings (
  code text not null,
  asset_id text not null references assets,
  book text not null,
  -- The merchant whose account it is; null for the house's own.
  account_id text references accounts,
  -- Null for an account that no platform owns (`fees`).
  platform_id text references platforms,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (code, asset_id, book),
  constraint ledger_openings_book check (book in ('test', 'live'))
);
create index ledger_openings_of_account on ledger_openings (account_id);
