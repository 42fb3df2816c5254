-- The rate limit: one row per API key with the instants of its last admissions. Nothing here may be missed: the table
-- is UNLOGGED, a crash of the server empties it, and the gateways then admit a share each until a window has passed.
-- Locks: none but on its own new objects. breaking: no

create unlogged table rate_log (
  -- `key_…`; the row with the empty key is the table's birth mark: another one means that rows were lost.
  key_id text primary key,
  -- The instant from which `admitted` counts.
  base timestamptz not null,
  -- Admissions in ms since `base`, ascending, as many as the limit at most: 1.2 KB at 300.
  admitted int4[] not null
) with (fillfactor = 50);

-- Neither compressed nor moved out of line, so that an update stays in its page (HOT) and costs no detoasting.
alter table rate_log alter column admitted set storage plain;

-- Admits the next calls of several keys at once; src/rate-log.ts is the same rule in TypeScript, and a property test
-- holds the two together. `p_keys` comes sorted: two gateways then never wait for each other in a circle. The clock is
-- read after the row lock, so that the instants of one key are in the order in which they are written.
create function admit_calls(
  p_keys text[],
  p_calls int4[],
  p_limit int4,
  p_window_ms int4,
  p_hold_ms int4,
  p_at timestamptz default null
) returns table (delays int4[], free int4, next_ms int4, born_at timestamptz, age_ms int8)
language plpgsql as $$
declare
  -- 20 days: an int4 holds 24.8 days of ms.
  rebase_after_ms constant int8 := 1728000000;
  v_born timestamptz;
  v_base timestamptz;
  v_log int4[];
  v_now timestamptz;
  v_exact numeric;
  v_floor int8;
  v_ceil int8;
  v_size int4;
  v_taken int4;
  v_at int8;
  v_last int8;
  v_new int4[];
begin
  select r.base into v_born from rate_log r where r.key_id = '';
  if not found then
    insert into rate_log values ('', coalesce(p_at, clock_timestamp()), '{}') on conflict do nothing;
    select r.base into v_born from rate_log r where r.key_id = '';
  end if;

  for i in 1 .. cardinality(p_keys) loop
    select r.base, r.admitted into v_base, v_log from rate_log r where r.key_id = p_keys[i] for update;
    if not found then
      insert into rate_log values (p_keys[i], coalesce(p_at, clock_timestamp()), '{}') on conflict do nothing;
      select r.base, r.admitted into v_base, v_log from rate_log r where r.key_id = p_keys[i] for update;
    end if;
    v_now := coalesce(p_at, clock_timestamp());
    v_exact := extract(epoch from v_now - v_base) * 1000;
    -- Written up, compared down: two admissions are never closer than they look.
    v_floor := floor(v_exact);
    v_ceil := ceil(v_exact);

    if v_ceil > rebase_after_ms then
      v_log := array(
        select (x - v_floor)::int4 from unnest(v_log) with ordinality as u(x, n)
        where x > v_floor - p_window_ms order by n);
      v_base := v_base + v_floor * interval '1 millisecond';
      v_ceil := v_ceil - v_floor;
      v_floor := 0;
    end if;
    v_size := cardinality(v_log);
    -- A clock that stepped back (a failover) would refuse a key until it has caught up: what lies ahead ends now.
    if v_size > 0 and v_log[v_size] > v_ceil + p_hold_ms then
      v_last := v_log[v_size] - v_ceil;
      v_log := array(select (x - v_last)::int4 from unnest(v_log) with ordinality as u(x, n) order by n);
    end if;
    if v_size > p_limit then
      v_log := v_log[v_size - p_limit + 1 :];
      v_size := p_limit;
    end if;

    v_taken := 0;
    v_new := '{}';
    delays := '{}';
    v_last := coalesce(v_log[v_size], v_floor);
    for j in 1 .. p_calls[i] loop
      if j <= p_limit - v_size then
        v_at := v_ceil;
      else
        exit when v_taken >= v_size or v_log[v_taken + 1] + p_window_ms > v_floor + p_hold_ms;
        v_at := greatest(v_ceil, v_log[v_taken + 1] + p_window_ms);
        v_taken := v_taken + 1;
      end if;
      v_at := greatest(v_at, v_last);
      v_last := v_at;
      v_new := v_new || v_at::int4;
      delays := delays || (v_at - v_ceil)::int4;
    end loop;

    v_log := v_log[v_taken + 1 :] || v_new;
    v_size := cardinality(v_log);
    if cardinality(v_new) > 0 then
      update rate_log r set base = v_base, admitted = v_log where r.key_id = p_keys[i];
    end if;
    free := p_limit - v_size + case when v_size = 0 then 0 else width_bucket((v_floor - p_window_ms)::int4, v_log) end;
    next_ms := case when v_size < p_limit then 0 else greatest(0, v_log[1] + p_window_ms - v_floor) end;
    born_at := v_born;
    age_ms := floor(extract(epoch from v_now - v_born) * 1000);
    return next;
  end loop;
end
$$;
