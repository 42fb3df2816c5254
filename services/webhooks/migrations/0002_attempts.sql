-- The log of attempts: what a merchant reads to find out why a notice did not arrive. New tables only, no lock on anything
-- that stands; breaking: no.
-- Forgetting is a TRUNCATE: the log is a ring of 64 tables, one a day (day number modulo 64), and whatever lies outside the
-- days that are kept is emptied. So millions of attempts a day leave no dead rows, and no table is ever made or dropped.

create table attempts (
  -- Day of the attempt, in real time, modulo 64.
  slot        smallint not null,
  -- No foreign key: a log may outlive its delivery until its day is forgotten, and is read through the delivery alone.
  delivery_id text not null,
  endpoint_id bigint not null,
  -- When it began, in the clock of the delivery's account and mode.
  at          timestamptz not null,
  duration_ms integer not null check (duration_ms >= 0),
  -- Null where no answer came.
  status_code integer,
  -- Null where it was delivered.
  error       text,
  -- The first 2 KiB of the answer's body as it came; null where none came.
  answer      bytea
) partition by list (slot);

create index attempts_delivery on attempts (delivery_id, at);

do $$
begin
  for slot in 0..63 loop
    execute format('create table attempts_%s partition of attempts for values in (%s)', lpad(slot::text, 2, '0'), slot);
    execute format('grant truncate on attempts_%s to cauri_webhooks', lpad(slot::text, 2, '0'));
  end loop;
end $$;

-- Ended deliveries are forgotten by the time of their end; a walk over the whole table took as long as the table is large.
create index deliveries_ended on deliveries (ended_at) where status <> 'pending';
