-- A list as a room would have it, for the tests of packages/store alone.
-- Lock: none on existing tables, only a new one. breaking: no

create table things (
  id text primary key,
  account text not null,
  mode text not null,
  n bigint,
  status text not null,
  client_ref text,
  created_at timestamptz
);

select install_list('things', 'thing');

-- What the ledger does with its transfers: the service may add and read, nothing else.
create table entries (id text primary key);
revoke update, delete on entries from cauri_store;
