-- The transfers of an operation are found by a bloom filter per stretch of pages instead of a tree: the tree was
-- written to with every transfer, under the lane's lock, for a question that only an operator asks.
-- Lock: access exclusive on transfers while both are done (writes wait; 1 s per million rows). Breaking: no.
drop index transfers_operation;
-- Some 4,000 rows in 64 pages, at most one operation each; a filter of 5 kB still fits into a page of the index.
create index transfers_operation on transfers
  using brin (operation_id text_bloom_ops (n_distinct_per_range = 4000, false_positive_rate = 0.01))
  with (pages_per_range = 64);
