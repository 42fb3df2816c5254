-- The statements of `append_batch` are planned once per connection: a plan of its own for each batch, which PostgreSQL
-- tries as long as the estimates of its arrays look better, costs 0.1 ms and is never another one.
-- Lock: none that a running batch holds. Breaking: no.

alter function append_batch set plan_cache_mode = force_generic_plan;
