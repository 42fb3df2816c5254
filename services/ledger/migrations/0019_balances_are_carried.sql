-- The balances of the accounts' rows are carried there by a loop, out of the entries: see docs/decisions/0201.
-- Lock: access exclusive on lanes until the commit. Breaking: yes, stop every replica: one of the release before would
-- read balances that its rows don't tell any more; that it books on them is made impossible by dropping its function.

-- No batch is under way from here on: what the rows tell now is what the entries tell.
lock table lanes in access exclusive mode;

do $$
declare
  old regprocedure;
begin
  for old in select oid from pg_proc where proname = 'append_batch' and pronamespace = current_schema()::regnamespace loop
    execute format('drop function %s', old);
  end loop;
end
$$;

-- Up to which batch the rows of a lane's accounts tell their balances. Not in the lane's own row, which every batch locks.
create table balance_marks (
  lane_id integer primary key,
  sequence bigint not null,
  recorded_at timestamptz not null
) with (fillfactor = 50);
insert into balance_marks (lane_id, sequence, recorded_at) select lane_id, sequence, recorded_at from lanes;
revoke all on balance_marks from public, cauri_ledger;
grant select, insert, update on balance_marks to cauri_ledger;

-- An account with its balances now: those of its last entry after its lane's mark, else of its row. For some accounts at a
-- time, one look-up in the entries' key each.
create view balances as
select a.account_id, a.lane_id, a.code, a.owner, a.platform_id, a.normal_side, a.no_overdraft, a.opened_at,
  coalesce(e.debits_pending, a.debits_pending) as debits_pending,
  coalesce(e.debits_posted, a.debits_posted) as debits_posted,
  coalesce(e.credits_pending, a.credits_pending) as credits_pending,
  coalesce(e.credits_posted, a.credits_posted) as credits_posted,
  coalesce(e.recorded_at, a.updated_at) as updated_at
from accounts a
left join balance_marks m on m.lane_id = a.lane_id
left join lateral (
  select e.recorded_at, e.debits_pending, e.debits_posted, e.credits_pending, e.credits_posted from entries e
  where e.account_id = a.account_id and e.recorded_at > coalesce(m.recorded_at, '-infinity')
  order by e.recorded_at desc, e.position desc limit 1
) e on true;
revoke all on balances from public, cauri_ledger;
grant select on balances to cauri_ledger;

-- The same for all accounts of a lane: who moved since the mark is found by the key of its transfers, so that a lane in which
-- nothing happens costs nothing, whatever the others do.
create function balances_of(lane integer) returns setof balances language sql stable
set search_path from current set enable_seqscan = off
as $$
select a.account_id, a.lane_id, a.code, a.owner, a.platform_id, a.normal_side, a.no_overdraft, a.opened_at,
  coalesce(last.debits_pending, a.debits_pending), coalesce(last.debits_posted, a.debits_posted),
  coalesce(last.credits_pending, a.credits_pending), coalesce(last.credits_posted, a.credits_posted),
  coalesce(last.recorded_at, a.updated_at)
from accounts a
left join (
  select moved.account_id, moved.recorded_at, e.debits_pending, e.debits_posted, e.credits_pending, e.credits_posted
  from (
    select distinct on (side.account_id) side.account_id, t.recorded_at, t.position
    from transfers t cross join lateral (values (t.debit_id), (t.credit_id)) as side (account_id)
    where t.lane_id = lane
      and t.recorded_at > coalesce((select m.recorded_at from balance_marks m where m.lane_id = lane), '-infinity')
    order by side.account_id, t.recorded_at desc, t.position desc
  ) moved
  -- One look-up each, whatever the planner thinks of their number.
  cross join lateral (select * from entries e where e.account_id = moved.account_id
    and e.recorded_at = moved.recorded_at and e.position = moved.position limit 1) e
) last on last.account_id = a.account_id
where a.lane_id = lane
$$;

/*
 * Records the batch `number` of a lane whose head is still `previous`, and returns the clock in microseconds. Of balances it
 * writes those of the entries alone.
 * `ahead` means that the batch was decided before the lane was locked: then whatever the decision took for granted
 * is checked as well. An error of class LG says that it no longer holds: the batch is to be decided again from what is read.
 * Arrays that may be null: of optional fields, where no transfer has one; of refusals and holds, where there are none;
 * `kinds`, where all are posts; `groups`, where each transfer is a group of its own.
 */
create function record_batch(
  lane integer, previous bytea, number bigint, head_after bytea, stamp timestamptz, ahead boolean,
  -- The transfers in their order.
  ids uuid[], kinds transfer_kind[], debit_ids bigint[], credit_ids bigint[], amounts bigint[], of_holds uuid[],
  ends timestamptz[], effects timestamptz[], operations text[], groups uuid[],
  -- Two entries of each transfer, the debited account's first: the accounts and their balances after it.
  entry_ids bigint[], entry_dp bigint[], entry_d bigint[], entry_cp bigint[], entry_c bigint[],
  -- The accounts touched that may not be overdrawn, and the place of the last entry of each of them that the batch moves.
  guarded bigint[], guarded_last integer[],
  -- Ids that the batch names and doesn't book: the refused ones, and their siblings.
  unbooked uuid[],
  refused_ids uuid[], refused_kinds transfer_kind[], refused_debits bigint[], refused_credits bigint[],
  refused_amounts bigint[], refused_holds uuid[], refused_ends timestamptz[], refused_effects timestamptz[],
  refused_operations text[], results remembered_refusal[],
  new_holds uuid[], new_debits bigint[], new_credits bigint[], new_amounts bigint[], new_ends timestamptz[],
  new_states hold_state[], new_captured bigint[], new_operations text[],
  ended_holds uuid[], ended_states hold_state[], ended_captured bigint[]
) returns bigint language plpgsql
-- The arrays are short beside the tables, which a plan made before the first statistics does not know.
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
-- Planned once per connection: a plan of its own for each batch costs 0.1 ms and is never another one.
set plan_cache_mode = force_generic_plan
as $$
declare
  touched integer;
begin
  update lanes set sequence = number, head = head_after, recorded_at = stamp where lane_id = lane and head = previous;
  if not found then
    raise exception 'lane % has moved on', lane using errcode = 'LG001';
  end if;
  if ahead then
    if stamp > clock_timestamp() or stamp < clock_timestamp() - interval '1 second' then
      raise exception 'the batch is dated %, the clock says %', stamp, clock_timestamp() using errcode = 'LG002';
    end if;
    -- Ids that are booked or refused now meet the key of taken_ids by themselves.
    if unbooked is not null and exists (select from taken_ids i where i.transfer_id = any (unbooked)) then
      raise exception 'an id is known' using errcode = 'LG003';
    end if;
  end if;

  if ended_holds is not null then
    update holds h set state = n.state, captured = n.captured
    from unnest(ended_holds, ended_states, ended_captured) as n (id, state, captured)
    where h.hold_id = n.id and h.state = 'held';
    get diagnostics touched = row_count;
    if touched <> cardinality(ended_holds) then
      raise exception 'of % holds % still stand', cardinality(ended_holds), touched using errcode = 'LG004';
    end if;
    delete from expiring_holds e where e.hold_id = any (ended_holds);
  end if;
  -- A hold that has fallen due on an account that may not be overdrawn is to be expired before anything else.
  if ahead and exists (
    select from expiring_holds e
    where e.lane_id = lane and e.expires_at <= stamp and (e.debit_id = any (guarded) or e.credit_id = any (guarded))
  ) then
    raise exception 'a hold is due' using errcode = 'LG005';
  end if;

  insert into batches (lane_id, sequence, recorded_at, transfers, refusals, hash)
  values (lane, number, stamp, cardinality(ids), coalesce(cardinality(refused_ids), 0), head_after);
  if cardinality(ids) > 0 then
    insert into transfers (lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
      expires_at, effective_at, operation_id, group_id, position)
    select lane, number, stamp, t.id, coalesce(t.kind, 'post'), t.debit, t.credit, t.amount, t.hold, t.ends, t.effective,
      t.operation, coalesce(t.grp, t.id), t.n - 1
    from (select unnest(ids) as id, unnest(kinds) as kind, unnest(debit_ids) as debit, unnest(credit_ids) as credit,
      unnest(amounts) as amount, unnest(of_holds) as hold, unnest(ends) as ends, unnest(effects) as effective,
      unnest(operations) as operation, unnest(groups) as grp, generate_series(1, cardinality(ids)) as n) as t;
    insert into taken_ids (transfer_id, recorded_at, lane_id, position)
    select unnest(ids), stamp, lane, generate_series(0, cardinality(ids) - 1);
    insert into entries (lane_id, recorded_at, account_id, position,
      debits_pending, debits_posted, credits_pending, credits_posted)
    select lane, stamp, e.account, (e.n - 1) / 2, e.dp, e.d, e.cp, e.c
    from (select unnest(entry_ids) as account, unnest(entry_dp) as dp, unnest(entry_d) as d, unnest(entry_cp) as cp,
      unnest(entry_c) as c, generate_series(1, cardinality(entry_ids)) as n) as e;
    -- The last line of defence on the way in: the engine has decided the same in memory. Whoever is guarded is credited.
    if exists (select from unnest(guarded_last) as place where entry_c[place] - entry_d[place] - entry_dp[place] < 0) then
      raise exception 'bug: the batch leaves an account below zero that may not be overdrawn' using errcode = 'check_violation';
    end if;
  end if;
  if refused_ids is not null then
    insert into refusals (lane_id, sequence, recorded_at, transfer_id, kind, debit_id, credit_id, amount, hold_id,
      expires_at, effective_at, operation_id, result, position)
    select lane, number, stamp, r.id, coalesce(r.kind, 'post'), r.debit, r.credit, r.amount, r.hold, r.ends, r.effective, r.operation,
      r.result, r.n - 1
    from unnest(refused_ids, refused_kinds, refused_debits, refused_credits, refused_amounts, refused_holds, refused_ends,
      refused_effects, refused_operations, results) with ordinality
      as r (id, kind, debit, credit, amount, hold, ends, effective, operation, result, n);
    insert into taken_ids (transfer_id, recorded_at, lane_id, position)
    select r.id, stamp, lane, r.n - 1 from unnest(refused_ids) with ordinality as r (id, n);
  end if;
  if new_holds is not null then
    insert into holds (lane_id, hold_id, debit_id, credit_id, amount, expires_at, state, captured, operation_id)
    select lane, * from unnest(new_holds, new_debits, new_credits, new_amounts, new_ends, new_states, new_captured,
      new_operations);
    insert into expiring_holds (lane_id, hold_id, debit_id, credit_id, amount, expires_at)
    select lane, n.id, n.debit, n.credit, n.amount, n.ends
    from unnest(new_holds, new_debits, new_credits, new_amounts, new_ends, new_states)
      as n (id, debit, credit, amount, ends, state)
    where n.ends is not null and n.state = 'held';
  end if;
  return (extract(epoch from clock_timestamp()) * 1000000)::bigint;
end
$$;
