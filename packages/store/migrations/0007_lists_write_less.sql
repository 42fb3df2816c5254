-- A list has no index by time any more: numbers are in the order of time, so an instant is found among them by halving. And its
-- numbers are guarded after an update instead of before it.
-- Why: every version of every payment, payout and refund wrote an entry of an index that only filters by time read; and before a
-- trigger that runs first, PostgreSQL locks and logs each row by itself.
-- Lock: each list, for the moment in which its index and trigger change. breaking: no (a replica of before finds an instant more
-- slowly)

create function keep_list_numbers(list regclass) returns void language plpgsql set search_path from current as $$
begin
  execute format('create trigger list_keeps_numbers after update on %s for each row
                  when (old.n is not null and (new.n is distinct from old.n or new.account <> old.account
                        or new.mode <> old.mode or new.created_at is distinct from old.created_at))
                  execute function refuse_list_gap()', list);
end $$;

do $$
declare
  list regclass;
begin
  for list in
    select t.tgrelid from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
     where t.tgname = 'list_keeps_numbers' and c.relnamespace = current_schema()::regnamespace
  loop
    execute format('drop index %I', (select c.relname from pg_catalog.pg_class c where c.oid = list) || '_list_time');
    execute format('drop trigger list_keeps_numbers on %s', list);
    perform keep_list_numbers(list);
  end loop;
end $$;

-- Makes a table a list. It must have: account text, mode text, n bigint null, status text, client_ref text null,
-- created_at timestamptz. The indexes and triggers are made here; the room's own migration calls it once per table.
create or replace function install_list(list regclass, kind text) returns void language plpgsql set search_path from current as $$
declare
  name text := (select c.relname from pg_catalog.pg_class c where c.oid = list);
begin
  execute format('create unique index %I on %s (account, mode, n) where n is not null', name || '_list', list);
  execute format('create index %I on %s (account, mode, status, n) where n is not null', name || '_list_status', list);
  execute format('create unique index %I on %s (account, mode, client_ref) where client_ref is not null',
                 name || '_client_ref', list);
  execute format('create trigger list_inserts after insert on %s referencing new table as after_rows
                  for each statement execute function count_list_inserts(%L)', list, kind);
  execute format('create trigger list_updates after update on %s
                  referencing old table as before_rows new table as after_rows
                  for each statement execute function count_list_updates(%L)', list, kind);
  perform keep_list_numbers(list);
  execute format('create trigger list_keeps_rows before delete on %s for each row when (old.n is not null)
                  execute function refuse_list_gap()', list);
end $$;
