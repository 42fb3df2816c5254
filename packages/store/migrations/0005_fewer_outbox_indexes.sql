-- Of the outbox only what is unsent, in its order, and what was sent, in its order, are ever looked for by other than an id.
-- Why: every event pays for each index once when it is written and once more when it is marked as sent; by topic the relay
-- chooses in memory, by account only a drain asks, and the stream's order is the order of sending.
-- Lock: outbox, for the moment in which each index goes. breaking: no (a replica of before reads the same rows more slowly)

drop index outbox_unsent_topic;
drop index outbox_unsent_account;
drop index outbox_stream;
