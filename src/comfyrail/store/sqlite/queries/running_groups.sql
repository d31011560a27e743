SELECT queue_group, count(*) AS jobs FROM jobs WHERE state = 'processing' GROUP BY queue_group;
