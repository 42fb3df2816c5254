-- What is under way leaves the queue: a pending delivery stands either in `queue` (with `firsts` before its first attempt)
-- or in `flights`. So a notice that can go out at once is written as under way by the transaction that consumes its event,
-- and never passes through the queue.
-- Lock: ACCESS EXCLUSIVE on deliveries and flights for a moment; nothing is rewritten. breaking: yes, stop every replica of
-- webhooks first: one of before this migration can claim nothing any more. What was under way is still in the queue and is
-- sent again, as after a crash.

drop table flights;

-- `no` tells a runner whether the delivery is still its own; a runner that died is succeeded when its lease has run out,
-- in real time. By operation, so that a later event of it finds what it has to wait for.
create table flights (
  endpoint_id  bigint not null,
  operation_id text not null,
  version      bigint not null,
  delivery_id  text not null,
  no           bigint not null,
  -- Its delivery had no attempt before: later events of the operation wait for it.
  is_first     boolean not null,
  lease_until  timestamptz not null,
  primary key (endpoint_id, operation_id, version, delivery_id)
);
alter table flights set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A delivery's id is made of its endpoint and its event, so the primary key alone keeps it from being there twice.
alter table deliveries drop constraint deliveries_endpoint_id_event_id_key;
