/** A long list as a view has it: kept fresh while it is looked at, and found again by Back. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useKeptScroll } from "./kept_scroll";
import { Listing, type Source } from "./listing";
import { connection, type LiveEvent, onEvents, resync } from "./stream";

/** The lists that were looked at last, by what they show. */
const MOST_KEPT = 4;
const kept = new Map<string, Listing<unknown>>();

function listingOf<T>(key: string, source: () => Source<T>): Listing<T> {
  const found = (kept.get(key) as Listing<T> | undefined) ?? new Listing(source());
  kept.delete(key);
  kept.set(key, found as Listing<unknown>);
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(oldest);
  }
  return found;
}

/** How far down newer ones are held back, in pixels. */
const TOP_PIXELS = 120;

/** `key` says what is listed. `take` is given what happens, to refresh what that concerns. */
export function useListing<T>(
  key: string,
  source: () => Source<T>,
  take: (listing: Listing<T>, events: LiveEvent[]) => void,
): Listing<T> {
  const listing = useMemo(() => listingOf(key, source), [key]);
  const taking = useRef(take);
  taking.current = take;
  useEffect(() => {
    listing.mayShow = () => scrollY < TOP_PIXELS;
    listing.start();
    const stop = onEvents((events) => taking.current(listing, events));
    const look = () => {
      if (listing.held.peek().length > 0 && listing.mayShow()) listing.showHeld();
      listing.lookSoon();
    };
    addEventListener("scroll", look, { passive: true });
    return () => {
      removeEventListener("scroll", look);
      stop();
      listing.stop();
    };
  }, [listing]);
  const again = useRef({ resync: resync.peek(), wasAway: false });
  useSignalEffect(() => {
    const now = { resync: resync.value, wasAway: connection.value === "away" };
    const isBack = again.current.wasAway && connection.value === "live";
    if (isBack || now.resync !== again.current.resync) {
      listing.error.value = null;
      listing.renew();
    }
    again.current = now;
  });
  useKeptScroll(key, listing.items.value !== null);
  return listing;
}
