-- An event's row is written once (decision 0179): what is unsent stands in a narrow table beside the outbox, and what was sent in
-- one row for each round of the relay. Why: marking an event as sent wrote its whole row and all of its index entries anew.
-- Lock: ACCESS EXCLUSIVE on outbox, for a pass over its rows and the build of an index. breaking: yes, stop every replica of the
-- room first: one of before would append events that no relay finds.

drop index outbox_unsent;
drop index outbox_sent;

-- Emptied as fast as it is filled: a vacuum that gives its pages back would hold up everyone for it.
create table outbox_unsent (seq bigint primary key) with (vacuum_truncate = false);

-- A round of the relay: which events it sent, and the lowest of their numbers in the stream. Kept as long as they are.
create table outbox_rounds (
  sent_at timestamptz not null default clock_timestamp(),
  round bigint generated always as identity,
  seqs bigint[] not null,
  stream_seq bigint not null,
  primary key (sent_at, round)
);

insert into outbox_unsent (seq) select seq from outbox where sent_at is null;

-- What was sent before is kept by its seconds. The first instant of each counts: rather repeated than lost.
insert into outbox_rounds (sent_at, seqs, stream_seq)
select min(sent_at), array_agg(seq), min(stream_seq) from outbox where sent_at is not null group by date_trunc('second', sent_at);

alter table outbox drop column sent_at, drop column stream_seq, add constraint outbox_seq unique (seq);
