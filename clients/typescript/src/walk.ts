// Lists of several pages.

import { errorOf } from "./errors.js";
import { now } from "./pace.js";
import type { WalkPage } from "./records.js";

const maxChase = 5 * 60 * 1000;

/**
 * Ends a walk five minutes after it has passed the time at which it began. Changes then come faster
 * than it reads them, and it would have no end.
 */
class Chase {
  #began: Date | undefined; // when the service sent the first page
  #passed: number | undefined;

  /** Reports whether the walk should end with a page although others follow. */
  over({ last, sent, synced_until: syncedUntil }: WalkPage<unknown>): boolean {
    this.#began ??= sent;
    // After a clock was set back, the service may give all changes one time for a while, so they can
    // be later than the beginning and yet settled. Such a walk does end.
    if (last && syncedUntil && last > syncedUntil && last > (this.#began ?? syncedUntil)) {
      this.#passed ??= now();
    }
    return this.#passed !== undefined && now() - this.#passed >= maxChase;
  }
}

/**
 * The records of all pages of a list, one after another. It requests pages as needed. It can be read
 * only once: a loop that follows another continues where that one stopped, also after an error.
 */
export class Records<T> implements AsyncIterableIterator<T> {
  /** Cursor of the page with the latest record. A list with this cursor begins with that page. */
  cursor: string | undefined;
  /**
   * The start of the next walk: the pages that have been read have every earlier change. It is
   * undefined until a page has been read to its end, and in lists that are not walks.
   */
  syncedUntil: Date | undefined;

  readonly #page: (cursor: string | undefined) => Promise<WalkPage<T>>;
  readonly #chase = new Chase();
  #following: string | null | undefined; // null after the last page
  #records: AsyncGenerator<T, undefined>;

  constructor(page: (cursor: string | undefined) => Promise<WalkPage<T>>, cursor: string | undefined) {
    this.cursor = cursor;
    this.#page = page;
    this.#following = cursor;
    this.#records = this.#read();
  }

  async *#read(): AsyncGenerator<T, undefined> {
    while (this.#following !== null) {
      const page = await this.#page(this.#following);
      if (page.next_cursor !== null && page.next_cursor === this.#following) {
        throw errorOf({ detail: "the next cursor leads to the same page" }, "", 0);
      }
      this.cursor = this.#following;
      this.#following = this.#chase.over(page) ? null : page.next_cursor;
      if (page.data.length === 0) this.syncedUntil = page.synced_until;
      for (const [i, record] of page.data.entries()) {
        if (i === page.data.length - 1) this.syncedUntil = page.synced_until;
        yield record;
      }
    }
    return undefined;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    try {
      return await this.#records.next();
    } catch (error) {
      this.#records = this.#read(); // a generator that has thrown an error has ended
      throw error;
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
