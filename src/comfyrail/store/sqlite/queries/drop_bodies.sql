-- Of what was delivered before: who sends it again makes it anew.
DELETE FROM delivery_bodies
WHERE sequence > :after AND sequence <= :upto AND EXISTS (
    SELECT 1 FROM deliveries
    WHERE deliveries.sequence = delivery_bodies.sequence AND deliveries.state = 'delivered'
        AND deliveries.settled_at < :before
);
