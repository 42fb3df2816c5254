-- Archived months: what was written to a file, where the chain stood, and what was taken away afterwards (docs/decisions/0141).
-- Lock: none on existing tables. Breaking: no.

create table archives (
  month date primary key,
  file text not null,
  -- Of the file as it was written and read again.
  sha256 bytea not null,
  bytes bigint not null,
  -- Over the balances of all accounts when the month began and when it ended: the end of one is the beginning of the next.
  opening bytea not null,
  closing bytea not null,
  written_at timestamptz not null default clock_timestamp(),
  constraint archives_first_of_month check (extract(day from month) = 1)
);

-- The last batch of each lane in an archived month: where `verify` goes on from once the month was taken away. Counts are of
-- all that the lane recorded up to there.
create table archive_anchors (
  month date not null references archives,
  lane_id integer not null,
  sequence bigint not null,
  hash bytea not null,
  recorded_at timestamptz not null,
  transfers bigint not null,
  entries bigint not null,
  refusals bigint not null,
  holds bigint not null,
  constraint archive_anchors_pkey primary key (month, lane_id)
);

-- What was taken away after the file had been verified; transfers, refusals and ids stay.
create table archive_removals (
  month date primary key references archives,
  entries bigint not null,
  batches bigint not null,
  removed_at timestamptz not null default clock_timestamp()
);

create trigger append_only before update or delete or truncate on archives execute function refuse_change();
create trigger append_only before update or delete or truncate on archive_anchors execute function refuse_change();
create trigger append_only before update or delete or truncate on archive_removals execute function refuse_change();
-- Archives are written and months taken away by the operator's tool as the owner, never by the service.
revoke all on archives, archive_anchors, archive_removals from public, cauri_ledger;
grant select on archives, archive_anchors, archive_removals to cauri_ledger;
