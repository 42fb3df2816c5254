-- What grows for ever is kept in months of recording, and the ids that are taken in one table of their own: see docs/decisions/0140.
-- Lock: access exclusive on the books while every row is copied (writes wait; 20 s per million transfers). Breaking: no.

drop view movements;
drop function summarize_past();
alter table transfers rename to old_transfers;
alter table entries rename to old_entries;
alter table refusals rename to old_refusals;
alter table batches rename to old_batches;
alter table displaced_movements rename to old_displaced_movements;
alter table old_transfers drop constraint transfers_pkey;
alter table old_entries drop constraint entries_pkey;
alter table old_refusals drop constraint refusals_pkey;
alter table old_batches drop constraint batches_pkey;
alter table old_displaced_movements drop constraint displaced_movements_pkey;

-- Every id that was ever booked or refused, for ever, and where what it names is recorded. One key for transfers and
-- refusals of all months: what a repeat is recognised by. Ids of the house begin with their operation's time, so they
-- arrive in the order of this key, however many there are.
create table taken_ids (
  transfer_id uuid not null,
  recorded_at timestamptz not null,
  lane_id integer not null,
  position integer not null
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 2000000, autovacuum_freeze_min_age = 0);
insert into taken_ids select transfer_id, recorded_at, lane_id, position from old_transfers order by recorded_at, position;
insert into taken_ids select transfer_id, recorded_at, lane_id, position from old_refusals order by recorded_at, position;
alter table taken_ids add constraint taken_ids_pkey primary key (transfer_id);

create table batches (
  recorded_at timestamptz not null,
  sequence bigint not null,
  lane_id integer not null,
  transfers integer not null,
  refusals integer not null,
  hash bytea not null,
  constraint batches_pkey primary key (lane_id, sequence, recorded_at),
  constraint batches_hash_is_sha256 check (octet_length(hash) = 32)
) partition by range (recorded_at);

create table transfers (
  transfer_id uuid not null,
  -- Strictly rising from batch to batch of a lane, the same for all of one batch, by this server's clock.
  recorded_at timestamptz not null,
  sequence bigint not null,
  debit_id bigint not null,
  credit_id bigint not null,
  -- What moves, is set aside, captured or set free; of a release or expiry the hold's whole amount.
  amount bigint not null,
  lane_id integer not null,
  position integer not null,
  kind transfer_kind not null,
  hold_id uuid,
  expires_at timestamptz,
  -- As asked; null means when it was recorded.
  effective_at timestamptz,
  -- The first transfer of those accepted together with it.
  group_id uuid not null,
  operation_id text not null,
  constraint transfers_pkey primary key (lane_id, recorded_at, position),
  constraint transfers_amount_positive check (amount > 0),
  constraint transfers_two_accounts check (debit_id <> credit_id),
  constraint transfers_hold_named check ((hold_id is not null) = (kind in ('capture', 'release', 'expire'))),
  constraint transfers_only_holds_expire check (expires_at is null or kind = 'hold')
) partition by range (recorded_at);
drop index transfers_operation;
-- Some 4,000 rows in 64 pages, at most one operation each; a filter of 5 kB still fits into a page of the index.
create index transfers_operation on transfers
  using brin (operation_id text_bloom_ops (n_distinct_per_range = 4000, false_positive_rate = 0.01))
  with (pages_per_range = 64);

-- Two per transfer, with the account's balances after it: a balance as of any instant is one look-up in this key.
create table entries (
  account_id bigint not null,
  recorded_at timestamptz not null,
  debits_pending bigint not null,
  debits_posted bigint not null,
  credits_pending bigint not null,
  credits_posted bigint not null,
  position integer not null,
  lane_id integer not null,
  constraint entries_pkey primary key (account_id, recorded_at, position)
) partition by range (recorded_at);
drop index entries_recorded;
create index entries_recorded on entries using brin (recorded_at) with (pages_per_range = 32);

-- Refusals that are answered the same for ever.
create table refusals (
  transfer_id uuid not null,
  recorded_at timestamptz not null,
  sequence bigint not null,
  debit_id bigint not null,
  credit_id bigint not null,
  amount bigint not null,
  lane_id integer not null,
  position integer not null,
  kind transfer_kind not null,
  hold_id uuid,
  expires_at timestamptz,
  effective_at timestamptz,
  operation_id text not null,
  result remembered_refusal not null,
  constraint refusals_pkey primary key (lane_id, recorded_at, position)
) partition by range (recorded_at);

-- The movements whose effective time was said: the only ones that an instant finds somewhere else than by recorded_at.
create table displaced_movements (
  account_id bigint not null,
  effective_at timestamptz not null,
  recorded_at timestamptz not null,
  position integer not null,
  constraint displaced_movements_pkey primary key (account_id, effective_at, recorded_at, position)
) partition by range (recorded_at);

/*
 * Makes the months from `first` to `last` (UTC) where they are missing, and returns how many were. Each is made beside its
 * table and then attached, which no writer waits for. What holds for a table as a whole holds for each part of it named
 * by itself: no rights for the service, no change by anybody.
 */
create function open_months(first date, last date) returns integer language plpgsql security definer
set search_path from current set lock_timeout = '5s' set timezone = 'UTC' as $$
declare
  whole text;
  begins date;
  part text;
  made integer := 0;
begin
  perform pg_advisory_xact_lock(404600002);
  for begins in select generate_series(date_trunc('month', first), date_trunc('month', last), interval '1 month')::date loop
    foreach whole in array array['batches', 'transfers', 'entries', 'refusals', 'displaced_movements'] loop
      part := format('%I.%I', current_schema(), whole || to_char(begins, '"_"YYYY"_"MM'));
      continue when to_regclass(part) is not null;
      execute format('create table %s (like %I.%I including all)', part, current_schema(), whole);
      -- Written once: rows are frozen by the first vacuum that meets them, which reads no page twice.
      execute format('alter table %s set (autovacuum_vacuum_insert_scale_factor = 0,
        autovacuum_vacuum_insert_threshold = 2000000, autovacuum_freeze_min_age = 0)', part);
      execute format('revoke all on %s from public, cauri_ledger', part);
      if whole <> 'displaced_movements' then
        execute format('create trigger append_only before update or delete or truncate on %s
          execute function %I.refuse_change()', part, current_schema());
      end if;
      execute format('alter table %I.%I attach partition %s for values from (%L) to (%L)',
        current_schema(), whole, part, begins::timestamptz, (begins + interval '1 month')::timestamptz);
      made := made + 1;
    end loop;
  end loop;
  return made;
end
$$;
revoke all on function open_months(date, date) from public;
grant execute on function open_months(date, date) to cauri_ledger;

-- The months that there are.
create view months as
select to_date(right(c.relname, 7), 'YYYY_MM') as begins
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'batches'::regclass;

select open_months((coalesce(min(recorded_at), clock_timestamp()) at time zone 'UTC')::date,
  ((clock_timestamp() + interval '3 months') at time zone 'UTC')::date) from old_batches;

insert into batches (lane_id, sequence, recorded_at, transfers, refusals, hash)
  select lane_id, sequence, recorded_at, transfers, refusals, hash from old_batches order by recorded_at;
insert into transfers (lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
    expires_at, effective_at, operation_id, group_id, position)
  select lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
    expires_at, effective_at, operation_id, group_id, position from old_transfers order by recorded_at, position;
insert into entries (lane_id, recorded_at, account_id, position, debits_pending, debits_posted, credits_pending, credits_posted)
  select lane_id, recorded_at, account_id, position, debits_pending, debits_posted, credits_pending, credits_posted
  from old_entries order by recorded_at, position;
insert into refusals (lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
    expires_at, effective_at, operation_id, result, position)
  select lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
    expires_at, effective_at, operation_id, result, position from old_refusals order by recorded_at, position;
insert into displaced_movements (account_id, effective_at, recorded_at, position)
  select account_id, effective_at, recorded_at, position from old_displaced_movements;
drop table old_transfers, old_entries, old_refusals, old_batches, old_displaced_movements;

create trigger append_only before update or delete or truncate on transfers execute function refuse_change();
create trigger append_only before update or delete or truncate on entries execute function refuse_change();
create trigger append_only before update or delete or truncate on refusals execute function refuse_change();
create trigger append_only before update or delete or truncate on batches execute function refuse_change();
create trigger append_only before update or delete or truncate on taken_ids execute function refuse_change();
revoke all on batches, transfers, entries, refusals, displaced_movements, taken_ids, months from public, cauri_ledger;
grant select, insert on batches, transfers, entries, refusals, displaced_movements, taken_ids to cauri_ledger;
grant select on months to cauri_ledger;

-- The only reader of the layout of entries besides the engine and `verify`: a transfer's changes to one account, and the
-- balances after it in the order of recording.
create view movements as
select e.account_id, e.lane_id, e.recorded_at, e.position, t.transfer_id,
  t.kind, t.operation_id, t.group_id, t.effective_at,
  case when t.debit_id = e.account_id then t.credit_id else t.debit_id end as counterparty_id,
  e.debits_pending as after_debits_pending, e.debits_posted as after_debits_posted,
  e.credits_pending as after_credits_pending, e.credits_posted as after_credits_posted,
  case when t.debit_id = e.account_id then pending else 0 end as debits_pending,
  case when t.debit_id = e.account_id then posted else 0 end as debits_posted,
  case when t.debit_id = e.account_id then 0 else pending end as credits_pending,
  case when t.debit_id = e.account_id then 0 else posted end as credits_posted
from entries e
join transfers t on t.lane_id = e.lane_id and t.recorded_at = e.recorded_at and t.position = e.position
-- A capture moves its own amount and frees the hold's.
left join holds h on t.kind = 'capture' and h.hold_id = t.hold_id
cross join lateral (select
  case t.kind when 'post' then 0 when 'hold' then t.amount when 'capture' then -h.amount else -t.amount end as pending,
  case when t.kind in ('post', 'capture') then t.amount else 0 end as posted) change;
grant select on movements to cauri_ledger;

-- A BRIN index knows nothing of new pages until a vacuum, and whatever it doesn't know is read for every stretch of the
-- past. Only a table's owner may summarize, hence definer. A month that is long over has no new pages.
create function summarize_past() returns void language plpgsql security definer
-- Shorter than the second after which a wait would cancel an automatic vacuum, which does the same work.
set search_path = pg_catalog set lock_timeout = '50ms' set timezone = 'UTC' as $$
declare
  index_name regclass;
begin
  for index_name in
    select i.indexrelid::regclass from pg_index i
    join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
    join pg_class t on t.oid = i.indrelid
    join pg_proc p on p.pronamespace = t.relnamespace and p.proname = 'summarize_past'
    where m.amname = 'brin' and i.indisvalid and c.relkind = 'i'
      and right(t.relname, 7) >= to_char(clock_timestamp() - interval '7 days', 'YYYY"_"MM')
  loop
    begin
      perform brin_summarize_new_values(index_name);
    exception when lock_not_available then
      null;
    end;
  end loop;
end
$$;
revoke all on function summarize_past() from public;
grant execute on function summarize_past() to cauri_ledger;
