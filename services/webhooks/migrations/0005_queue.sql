-- What is to be sent leaves `deliveries` for three small tables of one index each, so that the cost of claiming and of
-- writing a result does not depend on what else waits: with partial indexes over one large table PostgreSQL now and then
-- walked through all that was pending. `deliveries` stays the record that merchants and operators read.
-- Lock: ACCESS EXCLUSIVE on deliveries while it runs. breaking: yes, stop every replica of webhooks first: one of before
-- this migration would send what one of after it sends too.

-- Deliveries that wait for an attempt, by endpoint, then in the order in which they are due.
create table queue (
  endpoint_id  bigint not null,
  mode         text not null check (mode in ('test', 'live')),
  -- In the clock of the delivery's account and mode, whole milliseconds.
  due_at       timestamptz not null,
  delivery_id  text not null,
  operation_id text not null,
  version      bigint not null,
  -- Of attempts made so far: only a first attempt waits for its operation's earlier events.
  attempts     integer not null,
  primary key (endpoint_id, mode, due_at, delivery_id)
);

-- Deliveries that have not had their first attempt, by operation: a later event of it waits behind them.
create table firsts (
  endpoint_id  bigint not null,
  operation_id text not null,
  version      bigint not null,
  delivery_id  text not null,
  primary key (endpoint_id, operation_id, version, delivery_id)
);

-- Attempts under way. `no` tells a runner whether the delivery is still its own; a runner that died is succeeded when
-- its lease has run out. In real time.
create table flights (
  endpoint_id bigint not null,
  delivery_id text not null,
  no          bigint not null,
  lease_until timestamptz not null,
  primary key (endpoint_id, delivery_id)
);
create sequence flight_numbers;

-- Endpoints that were deleted and whose deliveries have yet to go.
create table removals (
  endpoint_id bigint primary key
);

insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
  select endpoint_id, mode, date_trunc('milliseconds', due_at), id, operation_id, version, attempts
    from deliveries where status = 'pending';
insert into firsts (endpoint_id, operation_id, version, delivery_id)
  select endpoint_id, operation_id, version, id from deliveries where status = 'pending' and attempts = 0;
update deliveries set due_at = date_trunc('milliseconds', due_at) where status = 'pending';

-- The claim and the deletion of an endpoint see to it that no delivery is without one; the cascade deleted a million rows
-- in the merchant's own call.
alter table deliveries drop constraint deliveries_endpoint_id_fkey;
drop index deliveries_due, deliveries_order, deliveries_leased, deliveries_account;
alter table deliveries drop column lease_until, drop column lease_no;

-- They are written and emptied all the time: vacuumed by their dead rows, not by their size.
alter table queue set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table firsts set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table flights set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
-- Every batch of results changes the endpoints' counters: a page that is half empty keeps the new versions to itself.
alter table endpoints set (fillfactor = 50);
