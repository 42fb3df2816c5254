-- Reading the past: movements with their changes, balances by effective day, the marks and findings of the verifier.
-- Lock: access exclusive on transfers while its new index is built (writes wait; 1 s per million rows). Breaking: no.

-- The only reader of the layout of entries besides the engine and `verify`: a transfer's changes to one account, and the
-- balances after it in the order of recording.
create view movements as
select e.account_id, e.lane_id, e.recorded_at, e.position, e.transfer_id,
  t.kind, t.operation_id, t.group_id, t.effective_at,
  case when t.debit_id = e.account_id then t.credit_id else t.debit_id end as counterparty_id,
  e.debits_pending as after_debits_pending, e.debits_posted as after_debits_posted,
  e.credits_pending as after_credits_pending, e.credits_posted as after_credits_posted,
  case when t.debit_id = e.account_id then pending else 0 end as debits_pending,
  case when t.debit_id = e.account_id then posted else 0 end as debits_posted,
  case when t.debit_id = e.account_id then 0 else pending end as credits_pending,
  case when t.debit_id = e.account_id then 0 else posted end as credits_posted
from entries e
join transfers t on t.transfer_id = e.transfer_id
-- A capture moves its own amount and frees the hold's.
left join holds h on t.kind = 'capture' and h.hold_id = t.hold_id
cross join lateral (select
  case t.kind when 'post' then 0 when 'hold' then t.amount when 'capture' then -h.amount else -t.amount end as pending,
  case when t.kind in ('post', 'capture') then t.amount else 0 end as posted) change;

-- An account's balances at the end of a day (UTC) by effective time: a row for each day with a movement. A late
-- movement adds to its day and to all days after it, so these rows change, unlike the entries that they are sums of.
-- Movements may be out of order by effective time, so a pending sum may be below zero here.
create table day_balances (
  account_id bigint not null,
  day date not null,
  debits_pending bigint not null,
  debits_posted bigint not null,
  credits_pending bigint not null,
  credits_posted bigint not null,
  constraint day_balances_pkey primary key (account_id, day)
) with (fillfactor = 70);

-- Up to which batch a lane's movements are in day_balances and displaced_movements.
create table day_marks (
  lane_id integer primary key,
  sequence bigint not null,
  recorded_at timestamptz not null
) with (fillfactor = 50);

-- The movements whose effective time was said: the only ones that an instant finds somewhere else than by recorded_at.
create table displaced_movements (
  account_id bigint not null,
  effective_at timestamptz not null,
  recorded_at timestamptz not null,
  position integer not null,
  constraint displaced_movements_pkey primary key (account_id, effective_at, recorded_at, position)
);

-- The transfers of an operation. Ids of operations rise with time, so inserts meet at the right edge of the index.
create index transfers_operation on transfers (operation_id collate "C");

-- How far a lane was verified, with the chain's hash there: `full` by a verification from the beginning, `monitor` by the
-- monitor. Counts are of all that was read from the beginning of the lane.
create table verify_marks (
  reader text not null,
  lane_id integer not null,
  sequence bigint not null,
  hash bytea not null,
  recorded_at timestamptz not null,
  transfers bigint not null,
  entries bigint not null,
  refusals bigint not null,
  holds bigint not null,
  verified_at timestamptz not null default clock_timestamp(),
  constraint verify_marks_pkey primary key (reader, lane_id),
  constraint verify_marks_reader check (reader in ('full', 'monitor'))
) with (fillfactor = 50);

-- Heads of lanes that a whole verification proved. A chain that is computed anew from a forged batch on is sound by
-- itself, but no longer holds these; the same heads are in the log, which leaves the machine.
create table anchors (
  lane_id integer not null,
  sequence bigint not null,
  hash bytea not null,
  verified_at timestamptz not null default clock_timestamp(),
  constraint anchors_pkey primary key (lane_id, sequence)
);
create trigger append_only before update or delete or truncate on anchors execute function refuse_change();

-- Broken invariants that the monitor found; a row goes when a verification from the beginning finds the books sound.
create table findings (
  finding_id bigint generated always as identity primary key,
  found_at timestamptz not null default clock_timestamp(),
  invariant text not null,
  sentence text not null,
  constraint findings_once unique (invariant, sentence)
);

revoke all on movements, day_balances, day_marks, displaced_movements, verify_marks, anchors, findings
  from public, cauri_ledger;
grant select on movements to cauri_ledger;
grant select, insert, update on day_balances, day_marks, verify_marks to cauri_ledger;
grant select, insert on displaced_movements, anchors to cauri_ledger;
grant select, insert, delete on findings, verify_marks to cauri_ledger;
