-- Accounts and who of them moved are joined by hash. Where the planner takes a lane for small, as before its first
-- statistics, it compared each account with each: seconds of a processor for ten thousand accounts under load.
-- Lock: none. Breaking: no.

alter function balances_of(integer) set enable_nestloop = off;
-- The service's own sessions have it off.
alter function balances_of(integer) set enable_hashjoin = on;
