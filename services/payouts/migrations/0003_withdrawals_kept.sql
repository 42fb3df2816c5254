-- A withdrawal names the settlement account that it goes to, instead of having a copy of its details from the request on.
-- Why: of requests that race, or are rejected, raw details would stay in the vault under ids that nobody asks for again.
-- Lock: withdrawals for the moment of the change; the few rows of before name the copy that they have. breaking: no
alter table withdrawals add column kept_as text;
update withdrawals set kept_as = id;
alter table withdrawals alter column kept_as set not null;
