-- Accounts and API keys. New tables only: no lock on anything that serves. breaking: no
create table accounts (
  account_id text primary key,
  -- Counts the accounts from 1 without gaps, so that the newest-first list has an exact total and its pages are ranges.
  n bigint not null unique check (n > 0),
  name text not null,
  country text not null check (country ~ '^[A-Z]{2}$'),
  email text not null,
  status text not null default 'pending',
  is_live boolean not null default false,
  products text[] not null default '{}',
  options text[] not null default '{}',
  -- Set while a close is being decided: calls are refused meanwhile, and the sweeper finishes what a crash left.
  closing_since timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint accounts_status check (status in ('pending', 'approved', 'suspended', 'closed')),
  constraint accounts_closing check (closing_since is null or status <> 'closed')
);
create index accounts_closing_since on accounts (closing_since) where closing_since is not null;

-- The last number given to an account: one row, locked for one commit by each sign-up, so that a rollback gives it back.
create table account_head (
  only_row boolean primary key default true check (only_row),
  n bigint not null
);
insert into account_head (n) values (0);

-- Only the HMAC of a secret is kept. A key ends by revoked_at (now) or expires_at (an overlap, real time).
create table keys (
  key_id text primary key,
  account_id text not null references accounts,
  mode text not null,
  scopes text[] not null,
  name text not null default '',
  hmac bytea not null unique check (octet_length(hmac) = 32),
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz,
  expires_at timestamptz,
  -- The key that took this one's place; a key is replaced once, so two rotations at once can't both leave a successor.
  replaced_by text unique references keys,
  constraint keys_mode check (mode in ('test', 'live'))
);
create index keys_of_account on keys (account_id, key_id);
