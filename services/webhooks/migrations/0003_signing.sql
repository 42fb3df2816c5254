-- Two secrets while one takes the other's place, and the Standard Webhooks headers. Adds columns without a rewrite, under a
-- short lock of endpoints; breaking: no.

alter table endpoints
  add column standard_headers boolean not null default false,
  -- The secret before the current one, and until when, in real time, it still signs beside it.
  add column previous_sealed bytea,
  add column previous_until timestamptz,
  -- What the caller called the last rotation: the same word again is the same rotation.
  add column rotation_id text,
  add constraint endpoints_previous check ((previous_sealed is null) = (previous_until is null));

-- Which key of CAURI_VAULT_KEYS sealed a value: its bytes begin with a form, the length of the key's id, and that id.
create function sealed_by(sealed bytea) returns text
  language sql immutable strict parallel safe
  return convert_from(substring(sealed from 3 for get_byte(sealed, 1)), 'LATIN1');
