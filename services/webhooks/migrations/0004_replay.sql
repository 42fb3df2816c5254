-- Seen and replayed: a page of deliveries by time, and which replay last began a round of each. Builds two indexes, under a
-- lock that stops writes of deliveries while it runs; breaking: no.

-- What the caller called the replay that began the present round: the same word never begins a second one.
alter table deliveries add column replay_id text;

-- Pages and time spans of an endpoint. Of all that is written here only inserts and ends touch it.
create index deliveries_seen on deliveries (endpoint_id, occurred_at, id);
-- What failed is found among millions that were delivered.
create index deliveries_failed on deliveries (endpoint_id, occurred_at, id) where status = 'failed';
