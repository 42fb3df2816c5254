-- What was said of a payout no longer asks the payout's row whether it is there.
-- Why: the question locks and reads the payout again for each row of news, a third of that row's price, and guards against
-- nothing: what has a number can never be deleted, and a draft is at no rail that could speak of it.
-- Lock: payout_news and payouts, for a moment. breaking: no

alter table payout_news drop constraint payout_news_payout_id_fkey;
