-- Where an account's withdrawals go: platform, masks, and the id under which rails keeps the raw details.
-- Why: a withdrawal goes to the merchant's own account alone, which an operator has checked and set.
-- Lock: accounts alone, for a moment (a column without a default). breaking: no
alter table accounts add column settlement json;
