-- What a transfer changes is told by itself, so that the days of a lane are summed without looking for its entries by time.
-- Lock: access exclusive on the view of the movements for an instant. Breaking: no.

/*
 * Each transfer with what it adds to the pending and the posted sum of both its accounts. Entries have no key by lane: to find
 * one lane's after a pause is to read what all others wrote meanwhile. These are found by the key of the lane's transfers.
 */
create view changes as
select t.*, change.pending, change.posted
from transfers t
-- A capture moves its own amount and frees the hold's.
left join holds h on t.kind = 'capture' and h.hold_id = t.hold_id
cross join lateral (select
  case t.kind when 'post' then 0 when 'hold' then t.amount when 'capture' then -h.amount else -t.amount end as pending,
  case when t.kind in ('post', 'capture') then t.amount else 0 end as posted) change;
revoke all on changes from public, cauri_ledger;
grant select on changes to cauri_ledger;

create or replace view movements as
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
join changes t on t.lane_id = e.lane_id and t.recorded_at = e.recorded_at and t.position = e.position;
