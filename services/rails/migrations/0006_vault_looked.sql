-- The vault's eraser remembers how far it has looked: it read everything older than a day, each minute (decision 0186).
-- Whoever changes keys looks for rows by key once, and may read the table for it; every payment paid for an index.
-- Lock: vault, for the moment in which the index goes. breaking: no (a replica of before erases as it did)

drop index vault_key;

-- Up to when the vault was looked through for what no attempt came to need; one row.
create table vault_looked (
  is_only boolean primary key default true check (is_only),
  until timestamptz not null
);
insert into vault_looked (until) values ('-infinity');
