-- What has had no attempt yet is found in the queue itself: `firsts` repeated each new row of it under another key.
-- Lock: ACCESS EXCLUSIVE on queue while its index is built, a second for a million waiting. breaking: yes, stop every replica
-- of webhooks first: one of before this migration reads and writes `firsts`.

-- By operation first, so that no look at an endpoint's due times can take this index for its own.
create index queue_firsts on queue (operation_id, version) where attempts = 0;
drop table firsts;

-- The room clears away itself what it has deleted there, as soon as scans would walk through it. Its file is filled again at
-- once, and cutting it off at the end would lock everybody out.
grant maintain on queue, flights to cauri_webhooks;
alter table queue set (vacuum_truncate = off);
alter table flights set (vacuum_truncate = off);
