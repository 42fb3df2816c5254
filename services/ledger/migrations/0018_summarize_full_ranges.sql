-- A range of pages that the next transfer is written to stays unsummarized: see docs/decisions/0176.
-- Lock: share update exclusive on the present month's parts for an instant. Breaking: no.

/*
 * A BRIN index knows nothing of new pages until a vacuum, and whatever it doesn't know is read for every stretch of the
 * past. What it does know, every insert has to keep true: a filter of operations is unpacked, changed and packed again
 * for each transfer. So ranges are summarized when they are full, and the last one of a month when the month is over.
 * Only a table's owner may summarize, hence definer.
 */
create or replace function summarize_past() returns void language plpgsql security definer
-- Shorter than the second after which a wait would cancel an automatic vacuum, which does the same work.
set search_path = pg_catalog set lock_timeout = '50ms' set timezone = 'UTC' as $$
declare
  -- Of 64 or 32 pages: more than are filled from one vacuum to the next, which comes every two million rows.
  most_ranges constant integer := 1000;
  part record;
begin
  for part in
    select i.indexrelid::regclass as index_name, o.option_value::integer as per_range,
      pg_relation_size(t.oid) / current_setting('block_size')::numeric / o.option_value::integer as ranges,
      right(t.relname, 7) < to_char(clock_timestamp(), 'YYYY"_"MM') as is_over
    from pg_index i
    join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
    join pg_class t on t.oid = i.indrelid
    join pg_proc p on p.pronamespace = t.relnamespace and p.proname = 'summarize_past'
    cross join pg_options_to_table(c.reloptions) o
    where m.amname = 'brin' and i.indisvalid and c.relkind = 'i' and o.option_name = 'pages_per_range'
      and right(t.relname, 7) >= to_char(clock_timestamp() - interval '1 month', 'YYYY"_"MM')
  loop
    part.ranges := case when part.is_over then ceil(part.ranges) else floor(part.ranges) end;
    begin
      perform brin_summarize_range(part.index_name, n * part.per_range)
      from generate_series(greatest(0, part.ranges - most_ranges)::bigint, part.ranges::bigint - 1) n;
    exception when lock_not_available then
      null;
    end;
  end loop;
end
$$;

/*
 * As in 0013, but an index that is made on an empty table knows the first range, and would have to be kept true from the
 * month's first transfer on.
 */
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
      -- Written once: rows are frozen by the first vacuum that meets them, which reads no page twice.
      execute format('alter table %s set (autovacuum_vacuum_insert_scale_factor = 0,
        autovacuum_vacuum_insert_threshold = 2000000, autovacuum_freeze_min_age = 0)', part);
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

-- The range that is open now in the months that there are.
select brin_desummarize_range(i.indexrelid, pg_relation_size(i.indrelid) / current_setting('block_size')::integer)
from pg_index i
join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
join pg_class t on t.oid = i.indrelid
where m.amname = 'brin' and c.relkind = 'i' and t.relnamespace = current_schema()::regnamespace
  and right(t.relname, 7) >= to_char(clock_timestamp() at time zone 'UTC', 'YYYY"_"MM');
