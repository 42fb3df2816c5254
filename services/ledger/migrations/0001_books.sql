-- The books: lanes, accounts, transfers, entries, holds, refusals, batches.
-- Lock: none on existing tables, all of them are new. Breaking: no.
--
-- There are no foreign keys from transfers and entries to accounts: each check would lock the account's row and write
-- to it, which doubles the price of a transfer. The lane's lock and `ledger verify` stand for what they would prove.

create type book as enum ('live', 'test');
create type normal_side as enum ('debit', 'credit');
-- `expire` is written by the ledger itself when a hold's time is over; nobody can ask for it.
create type transfer_kind as enum ('post', 'hold', 'capture', 'release', 'expire');
create type hold_state as enum ('held', 'captured', 'released', 'expired');
-- The refusals that are remembered for ever; the others may still turn into an acceptance.
create type remembered_refusal as enum (
  'hold_already_captured', 'hold_already_released', 'hold_already_expired', 'exceeds_hold', 'insufficient_funds',
  'balance_overflow'
);

-- A lane is one asset in one book. Its row is the only lock of the engine, taken first: one total order of batches.
create table lanes (
  lane_id integer generated always as identity primary key,
  asset_id text not null,
  book book not null,
  -- Number, hash and time of the last batch.
  sequence bigint not null default 0,
  head bytea not null default decode(repeat('00', 32), 'hex'),
  recorded_at timestamptz not null default '-infinity',
  constraint lanes_asset_book unique (asset_id, book),
  constraint lanes_head_is_sha256 check (octet_length(head) = 32)
) with (fillfactor = 50);

-- No balance column is indexed and half of each page is free, so that an update of balances stays on its page (HOT).
create table accounts (
  account_id bigint generated always as identity primary key,
  lane_id integer not null references lanes,
  code text collate "C" not null,
  -- The merchant of `merchant:…` and `receivable:…` codes, for its balances and totals.
  owner text collate "C",
  platform_id text collate "C",
  normal_side normal_side not null,
  no_overdraft boolean not null,
  debits_pending bigint not null default 0,
  debits_posted bigint not null default 0,
  credits_pending bigint not null default 0,
  credits_posted bigint not null default 0,
  opened_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  -- Time of the batch that touched the account last; `opened_at` before the first.
  updated_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  constraint accounts_code unique (lane_id, code),
  constraint accounts_not_negative
    check (debits_pending >= 0 and debits_posted >= 0 and credits_pending >= 0 and credits_posted >= 0),
  -- The last line of defence: the engine decides the same in memory, before it writes.
  constraint accounts_no_overdraft check (
    not no_overdraft
    or case normal_side
         when 'credit' then credits_posted - debits_posted - debits_pending >= 0
         else debits_posted - credits_posted - credits_pending >= 0
       end
  )
) with (fillfactor = 50);
create index accounts_owner on accounts (owner) where owner is not null;

-- One row per committed transaction of the engine; `hash` chains its transfers and refusals to the batch before.
create table batches (
  lane_id integer not null,
  sequence bigint not null,
  recorded_at timestamptz not null,
  transfers integer not null,
  refusals integer not null,
  hash bytea not null,
  constraint batches_pkey primary key (lane_id, sequence),
  constraint batches_hash_is_sha256 check (octet_length(hash) = 32)
);

create table transfers (
  transfer_id uuid primary key,
  lane_id integer not null,
  sequence bigint not null,
  position integer not null,
  kind transfer_kind not null,
  debit_id bigint not null,
  credit_id bigint not null,
  -- What moves, is set aside, captured or set free; of a release or expiry the hold's whole amount.
  amount bigint not null,
  hold_id uuid,
  expires_at timestamptz,
  -- As asked; null means when it was recorded.
  effective_at timestamptz,
  -- The first transfer of those accepted together with it.
  group_id uuid not null,
  operation_id text not null,
  -- Strictly rising from batch to batch of a lane, the same for all of one batch, by this server's clock.
  recorded_at timestamptz not null,
  constraint transfers_amount_positive check (amount > 0),
  constraint transfers_two_accounts check (debit_id <> credit_id),
  constraint transfers_hold_named check ((hold_id is not null) = (kind in ('capture', 'release', 'expire'))),
  constraint transfers_only_holds_expire check (expires_at is null or kind = 'hold')
);
-- Rows arrive in the order of time, so a few bytes per 32 pages find a stretch of the past for `ledger verify`.
create index transfers_recorded on transfers using brin (recorded_at) with (pages_per_range = 32);

-- Two per transfer, with the account's balances after it: a balance as of any instant is one look-up in this key.
create table entries (
  account_id bigint not null,
  recorded_at timestamptz not null,
  position integer not null,
  lane_id integer not null,
  transfer_id uuid not null,
  debits_pending bigint not null,
  debits_posted bigint not null,
  credits_pending bigint not null,
  credits_posted bigint not null,
  constraint entries_pkey primary key (account_id, recorded_at, position)
);
create index entries_recorded on entries using brin (recorded_at) with (pages_per_range = 32);

-- Refusals that are answered the same for ever. A refused id is as taken as an accepted one.
create table refusals (
  transfer_id uuid primary key,
  lane_id integer not null,
  sequence bigint not null,
  position integer not null,
  kind transfer_kind not null,
  debit_id bigint not null,
  credit_id bigint not null,
  amount bigint not null,
  hold_id uuid,
  expires_at timestamptz,
  effective_at timestamptz,
  operation_id text not null,
  result remembered_refusal not null,
  recorded_at timestamptz not null
);
create index refusals_recorded on refusals using brin (recorded_at) with (pages_per_range = 32);

-- The present state of every hold. No index holds `state`, so ending a hold stays on its page (HOT).
create table holds (
  hold_id uuid primary key,
  lane_id integer not null,
  debit_id bigint not null,
  credit_id bigint not null,
  amount bigint not null,
  expires_at timestamptz,
  state hold_state not null,
  captured bigint not null default 0,
  -- Its expiry is booked under the operation that posted it.
  operation_id text not null,
  constraint holds_captured_within check (captured >= 0 and captured <= amount),
  constraint holds_captured_state check ((captured > 0) = (state = 'captured'))
) with (fillfactor = 70);

-- The holds that stand and have an end: a row goes when its hold ends, so the table stays as small as what is open.
create table expiring_holds (
  hold_id uuid primary key,
  lane_id integer not null,
  debit_id bigint not null,
  credit_id bigint not null,
  amount bigint not null,
  expires_at timestamptz not null
);
create index expiring_holds_debit on expiring_holds (debit_id, expires_at);
create index expiring_holds_credit on expiring_holds (credit_id, expires_at);
create index expiring_holds_lane on expiring_holds (lane_id, expires_at);

-- Append-only, enforced here for every role, the owner included: what is written about the past stays written.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% of ledger.% is refused: the books are append-only, a correction is a new transfer', tg_op, tg_table_name
    using errcode = 'insufficient_privilege';
end
$$;
create trigger append_only before update or delete or truncate on transfers execute function refuse_change();
create trigger append_only before update or delete or truncate on entries execute function refuse_change();
create trigger append_only before update or delete or truncate on refusals execute function refuse_change();
create trigger append_only before update or delete or truncate on batches execute function refuse_change();
-- What has balances or a state is updated, but never goes away.
create trigger never_deleted before delete or truncate on lanes execute function refuse_change();
create trigger never_deleted before delete or truncate on accounts execute function refuse_change();
create trigger never_deleted before delete or truncate on holds execute function refuse_change();

-- The service appends, and updates the few columns that are a sum or a state of what it appended.
revoke all on lanes, accounts, batches, transfers, entries, refusals, holds, expiring_holds from public, cauri_ledger;
grant select, insert on lanes, accounts, batches, transfers, entries, refusals, holds, expiring_holds to cauri_ledger;
grant update (sequence, head, recorded_at) on lanes to cauri_ledger;
grant update (debits_pending, debits_posted, credits_pending, credits_posted, updated_at) on accounts to cauri_ledger;
grant update (state, captured) on holds to cauri_ledger;
grant delete on expiring_holds to cauri_ledger;
