-- Lists: gapless numbers per account, mode and kind, and row counts per status and block of 4096 numbers.
-- Why: every total is exact and a page deep inside a filter skips at most one block; no list counts or skips a table.
-- Lock: none on existing tables, only new ones. breaking: no

create table list_heads (
  account text not null,
  mode text not null,
  kind text not null,
  n bigint not null,
  last_at timestamptz not null,
  primary key (account, mode, kind)
) with (fillfactor = 50);

create table list_counts (
  account text not null,
  mode text not null,
  kind text not null,
  status text not null,
  block bigint not null,
  rows bigint not null,
  primary key (account, mode, kind, status, block)
) with (fillfactor = 50);

-- Takes one number for each given owner and answers in their order: the k rows of one owner get k numbers in a row
-- and one time. The heads are locked in key order until the transaction ends; a rollback gives the numbers back.
create function number_rows(kind text, accounts text[], modes text[])
  returns table (ord bigint, n bigint, created_at timestamptz)
  language sql volatile rows 100
begin atomic
  with wanted as (
    select o.account, o.mode, o.ord,
           row_number() over (partition by o.account, o.mode order by o.ord) as place,
           count(o.ord) over (partition by o.account, o.mode) as taken
      from unnest(number_rows.accounts, number_rows.modes) with ordinality as o (account, mode, ord)
  ), heads as (
    insert into list_heads as h (account, mode, kind, n, last_at)
    select w.account, w.mode, number_rows.kind, w.taken, now_of(w.account, w.mode)
      from (select distinct account, mode, taken from wanted) w
     order by w.account, w.mode
    on conflict (account, mode, kind)
      do update set n = h.n + excluded.n, last_at = greatest(h.last_at, excluded.last_at)
    returning h.account, h.mode, h.n, h.last_at
  )
  select w.ord, heads.n - w.taken + w.place, heads.last_at
    from wanted w join heads using (account, mode)
   order by w.ord;
end;

-- The three counting triggers see whole statements, so one statement over a thousand rows costs one upsert per counter.
-- A change that leaves account, status and number alone adds up to nothing and writes nothing.
create function count_list_inserts() returns trigger language plpgsql set search_path from current as $$
begin
  insert into list_counts as c (account, mode, kind, status, block, rows)
  select a.account, a.mode, tg_argv[0], a.status, a.n >> 12, count(a.n)
    from after_rows a
   where a.n is not null
   group by a.account, a.mode, a.status, a.n >> 12
   order by a.account, a.mode, a.status, a.n >> 12
  on conflict (account, mode, kind, status, block) do update set rows = c.rows + excluded.rows;
  return null;
end $$;

create function count_list_updates() returns trigger language plpgsql set search_path from current as $$
begin
  insert into list_counts as c (account, mode, kind, status, block, rows)
  select d.account, d.mode, tg_argv[0], d.status, d.n >> 12, sum(d.change)::bigint
    from (select a.account, a.mode, a.status, a.n, 1 as change from after_rows a where a.n is not null
          union all
          select b.account, b.mode, b.status, b.n, -1 from before_rows b where b.n is not null) d
   group by d.account, d.mode, d.status, d.n >> 12
  having sum(d.change) <> 0
   order by d.account, d.mode, d.status, d.n >> 12
  on conflict (account, mode, kind, status, block) do update set rows = c.rows + excluded.rows;
  return null;
end $$;

-- A number is for ever: without this rule a total taken from the head would lie.
create function refuse_list_gap() returns trigger language plpgsql as $$
begin
  raise exception '%: a row that has a list number keeps its number, owner and time and is never deleted', tg_table_name
    using errcode = 'restrict_violation';
end $$;

-- Makes a table a list. It must have: account text, mode text, n bigint null, status text, client_ref text null,
-- created_at timestamptz. The indexes and triggers are made here; the room's own migration calls it once per table.
create function install_list(list regclass, kind text) returns void language plpgsql set search_path from current as $$
declare
  name text := (select c.relname from pg_catalog.pg_class c where c.oid = list);
begin
  execute format('create unique index %I on %s (account, mode, n) where n is not null', name || '_list', list);
  execute format('create index %I on %s (account, mode, status, n) where n is not null', name || '_list_status', list);
  execute format('create index %I on %s (account, mode, created_at, n) where n is not null', name || '_list_time', list);
  execute format('create unique index %I on %s (account, mode, client_ref) where client_ref is not null',
                 name || '_client_ref', list);
  execute format('create trigger list_inserts after insert on %s referencing new table as after_rows
                  for each statement execute function count_list_inserts(%L)', list, kind);
  execute format('create trigger list_updates after update on %s
                  referencing old table as before_rows new table as after_rows
                  for each statement execute function count_list_updates(%L)', list, kind);
  execute format('create trigger list_keeps_numbers before update on %s for each row
                  when (old.n is not null and (new.n is distinct from old.n or new.account <> old.account
                        or new.mode <> old.mode or new.created_at is distinct from old.created_at))
                  execute function refuse_list_gap()', list);
  execute format('create trigger list_keeps_rows before delete on %s for each row when (old.n is not null)
                  execute function refuse_list_gap()', list);
end $$;
