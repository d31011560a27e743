/** Files that were dropped, kept in this browser so that a reload finds them again. */

const NAME = "comfyrail-files";
const STORE = "files";
const MOST = 30;

export interface ShelvedFile {
  key: string;
  name: string;
  type: string;
  content: Blob;
  at: number;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "key" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Files of this page's life, for browsers that keep nothing. */
const held = new Map<string, ShelvedFile>();

export async function shelve(file: File): Promise<string> {
  const key = crypto.getRandomValues(new Uint32Array(2)).join("-");
  const entry: ShelvedFile = {
    key,
    name: file.name,
    type: file.type,
    content: file,
    at: Date.now(),
  };
  held.set(key, entry);
  try {
    const base = await open();
    const store = base.transaction(STORE, "readwrite").objectStore(STORE);
    await done(store.put(entry));
    await tidy(store);
    base.close();
  } catch {
    // a private window: it is there until the page is closed
  }
  return key;
}

async function tidy(store: IDBObjectStore): Promise<void> {
  const all = (await done(store.getAll())) as ShelvedFile[];
  all.sort((one, other) => other.at - one.at);
  for (const old of all.slice(MOST)) store.delete(old.key);
}

export async function takeFromShelf(key: string): Promise<ShelvedFile | null> {
  const here = held.get(key);
  if (here !== undefined) return here;
  try {
    const base = await open();
    const found = (await done(base.transaction(STORE).objectStore(STORE).get(key))) as
      | ShelvedFile
      | undefined;
    base.close();
    return found ?? null;
  } catch {
    return null;
  }
}
