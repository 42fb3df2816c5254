-- The verifications from the beginning: when, and what they found; and a way to keep the indexes by time of use to them.
-- Lock: none on existing tables. Breaking: no.

create table verifications (
  verification_id bigint generated always as identity primary key,
  began_at timestamptz not null default clock_timestamp(),
  -- Null while it runs; one that stays so was cut off, and the next goes on from its marks.
  ended_at timestamptz,
  transfers bigint,
  problems integer
);
revoke all on verifications from public, cauri_ledger;
grant select, insert on verifications to cauri_ledger;
grant update (ended_at, transfers, problems) on verifications to cauri_ledger;

-- A BRIN index knows nothing of new pages until a vacuum, and whatever it doesn't know is read for every stretch of the
-- past: 1 M transfers that no vacuum had seen took verify minutes. Only a table's owner may summarize, hence definer.
create function summarize_past() returns void language plpgsql security definer
-- Shorter than the second after which a wait would cancel an automatic vacuum, which does the same work.
set search_path = pg_catalog set lock_timeout = '50ms' as $$
declare
  index_name regclass;
begin
  for index_name in
    select i.indexrelid::regclass from pg_index i
    join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
    join pg_class t on t.oid = i.indrelid
    join pg_proc p on p.pronamespace = t.relnamespace and p.proname = 'summarize_past'
    where m.amname = 'brin' and i.indisvalid
  loop
    begin
      perform brin_summarize_new_values(index_name);
    exception when lock_not_available then
      null;
    end;
  end loop;
end
$$;
revoke all on function summarize_past() from public;
grant execute on function summarize_past() to cauri_ledger;
