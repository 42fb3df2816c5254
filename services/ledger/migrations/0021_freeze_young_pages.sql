-- Written pages are frozen while they are young: see docs/decisions/0142.
-- Lock: share update exclusive on the present and coming months' parts for an instant. Breaking: no.

/*
 * A page that has been made since the last checkpoint goes to the WAL row by row; of one that hasn't, a vacuum writes the
 * whole image. At two million rows nearly every page was met too late, and the WAL of a busy lane doubled.
 */
create function freeze_soon(part regclass) returns void language plpgsql set search_path = pg_catalog as $$
begin
  -- Written once: rows are frozen by the first vacuum that meets them, which reads no page twice.
  execute format('alter table %s set (autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 200000, autovacuum_freeze_min_age = 0)', part);
end
$$;
revoke all on function freeze_soon(regclass) from public;

-- As in 0018 but for the above, which stands in one place from now on.
create or replace function open_months(first date, last date) returns integer language plpgsql security definer
set search_path from current set lock_timeout = '5s' set timezone = 'UTC' as $$
declare
  whole text;
  begins date;
  part text;
  made integer := 0;
begin
  perform pg_advisory_xact_lock(404600002);
  for begins in select generate_series(date_trunc('month', first), date_trunc('month', last), interval '1 month')::date loop
    foreach whole in array array['batches', 'transfers', 'entries', 'refusals', 'displaced_movements'] loop
      part := format('%I.%I', current_schema(), whole || to_char(begins, '"_"YYYY"_"MM'));
      continue when to_regclass(part) is not null;
      execute format('create table %s (like %I.%I including all)', part, current_schema(), whole);
      perform freeze_soon(part::regclass);
      execute format('revoke all on %s from public, cauri_ledger', part);
      if whole <> 'displaced_movements' then
        execute format('create trigger append_only before update or delete or truncate on %s
          execute function %I.refuse_change()', part, current_schema());
      end if;
      perform brin_desummarize_range(i.indexrelid, 0)
      from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
      where i.indrelid = part::regclass and m.amname = 'brin';
      execute format('alter table %I.%I attach partition %s for values from (%L) to (%L)',
        current_schema(), whole, part, begins::timestamptz, (begins + interval '1 month')::timestamptz);
      made := made + 1;
    end loop;
  end loop;
  return made;
end
$$;

-- What is there already: a month that is over is frozen by now or soon, and is left alone.
select freeze_soon(c.oid)
from pg_class c
where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
  and (c.relname = 'taken_ids' or c.relname ~ '^(batches|transfers|entries|refusals|displaced_movements)_\d{4}_\d\d$'
    and right(c.relname, 7) >= to_char(clock_timestamp() at time zone 'UTC', 'YYYY"_"MM'));
