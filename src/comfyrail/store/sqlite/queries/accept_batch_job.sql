-- Its rank counts from when the batch was accepted or, where it is held for longer, from then on;
-- a millisecond more for each job of the batch, so that not thousands have the same rank.
UPDATE jobs
SET submitted_at = :accepted_at,
    rank = rank - max(submitted_at, coalesce(not_before, submitted_at))
        + max(:accepted_at, coalesce(not_before, :accepted_at)) + batch_index,
    expires_at = :expires_at
WHERE id = :job_id
RETURNING *;
