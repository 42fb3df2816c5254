-- What a payment writes here, made less (decision 0168). The simulated operator's books are one row per charge, in which stands
-- what happens next; the table of its events goes. An attempt's history needs no look at the attempt, which is locked by
-- whoever writes it; pages of attempts keep room, so that an update that no index sees stays on its page.
-- Lock: attempts, attempt_history and the simulator's tables, for a pass over the charges with open events. breaking: yes,
-- a replica of before it would wait for events that nobody writes. Every replica of rails is stopped first.

alter table attempt_history drop constraint attempt_history_operation_id_fkey;

alter table attempts drop column updated_at;
alter table attempts set (fillfactor = 60);

alter table simulator_charges
  drop column updated_at,
  -- Only what has a page has a token.
  alter column token drop not null,
  -- What is told next, or was told last.
  add column news text constraint simulator_charges_news check (news in ('settle', 'reject', 'cancel', 'return')),
  -- The state from `due_at` on, where the news were scheduled and not decided by somebody; nobody needs to write it then.
  add column becomes text,
  -- Business time of the news.
  add column due_at timestamptz,
  -- Times that the callback is sent.
  add column copies smallint not null default 0 constraint simulator_charges_copies check (copies between 0 and 2),
  -- Business time from which the news are told; null where nothing is left to tell.
  add column tell_at timestamptz,
  add column tries integer not null default 0,
  -- Real time of the next delivery; also the lease of the one under way.
  add column try_at timestamptz not null default clock_timestamp(),
  -- Of a payout that comes back once its success is told: when, in business time.
  add column return_at timestamptz;
alter table simulator_charges set (fillfactor = 60);

-- Of several open events the first; after a success that is still to come or to be told, the return.
update simulator_charges c
   set news = e.news,
       failure_code = case when e.applied_at is null then c.failure_code else e.failure_code end,
       becomes = case when e.applied_at is null
                      then case e.news when 'settle' then 'success' when 'reject' then 'failed'
                                       when 'cancel' then 'cancelled' else 'returned' end end,
       due_at = e.due_at, copies = e.copies, tell_at = case when e.copies > 0 then e.due_at end,
       tries = e.tries, try_at = e.try_at,
       return_at = case when e.news = 'settle'
                        then (select min(r.due_at) from simulator_events r
                               where r.reference = c.reference and r.done_at is null and r.news = 'return') end
  from (select distinct on (reference) * from simulator_events where done_at is null
         order by reference, due_at, event_id) e
 where e.reference = c.reference;

drop table simulator_events;

create index simulator_charges_due on simulator_charges (tell_at) where tell_at is not null;
create index simulator_charges_account on simulator_charges (account, tell_at) where tell_at is not null and mode = 'test';
drop index simulator_charges_token;
create unique index simulator_charges_token on simulator_charges (token) where token is not null;
