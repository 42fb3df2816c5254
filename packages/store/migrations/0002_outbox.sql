-- Outbox and inbox: events leave by the transaction that made them true and count once where they arrive.
-- Why: a publish after the commit can be lost, one before it can lie; consumers get every event at least once.
-- Lock: none on existing tables, only new ones. breaking: no

create table outbox (
  event_id text primary key,
  -- Order within a topic; ids of different topics commit out of order, so this is never a cursor.
  seq bigint generated always as identity,
  -- The operation whose news must leave in order, at most one of them in flight.
  topic text not null,
  subject text not null,
  payload bytea not null,
  account text not null,
  mode text not null,
  created_at timestamptz not null default clock_timestamp(),
  sent_at timestamptz,
  stream_seq bigint
);

create index outbox_unsent on outbox (seq) where sent_at is null;
create index outbox_unsent_topic on outbox (topic, seq) where sent_at is null;
create index outbox_unsent_account on outbox (account) where sent_at is null;
create index outbox_sent on outbox (sent_at, seq) where sent_at is not null;
create index outbox_stream on outbox (stream_seq) where stream_seq is not null;

create table inbox (
  consumer text not null,
  event_id text not null,
  seen_at timestamptz not null default clock_timestamp(),
  primary key (consumer, event_id)
);

create index inbox_seen on inbox (seen_at);
