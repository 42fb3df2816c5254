-- Clocks: how far the test mode of each account is ahead of real time.
-- Why: every business time of a room is now_of(account, mode), so that a sandbox clock moves expiries, retries and stamps.
-- Lock: none on existing tables, only new ones. breaking: no

create table clocks (
  account text primary key,
  offset_ms bigint not null check (offset_ms >= 0)
);

-- Business time of one account, to the millisecond that the API shows.
-- The body is bound to clocks here, so it needs no search_path and is inlined into the caller's plan.
create function now_of(account text, mode text) returns timestamptz
  language sql stable parallel safe
  return date_trunc('milliseconds', statement_timestamp())
    + interval '1 millisecond' * coalesce(
        (select c.offset_ms from clocks c where now_of.mode = 'test' and c.account = now_of.account), 0);

-- The furthest business time of any account: the bound that lets a due query use its index
-- (due_at <= latest_now(mode) and due_at <= now_of(account, mode)).
create function latest_now(mode text) returns timestamptz
  language sql stable parallel safe
  return date_trunc('milliseconds', statement_timestamp())
    + interval '1 millisecond' * coalesce((select max(c.offset_ms) from clocks c where latest_now.mode = 'test'), 0);
