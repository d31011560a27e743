SELECT needs FROM job_groups WHERE key = :key;
