package tailrace.board.cost;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Memory that pages allocate and drop, and a live set that a collector must traverse.
 *
 * <p>The live set is many chains of small objects, because a collector's time depends on objects more than on bytes. A
 * page replaces chains drawn at random. Most of them are old by then, so that the old generation fills with garbage and
 * is collected.
 */
public final class Garbage {
    /** A link with its header, reference and array, as 64-bit JVMs with compressed references lay it out. */
    private static final int LINK_BYTES = 64;

    private static final int LINKS = 16;
    private static final int CHAIN_BYTES = LINKS * LINK_BYTES;

    private final AtomicReferenceArray<Link> live;
    private final int chainsPerPage;

    private record Link(Link next, byte[] filling) {}

    /**
     * @param perPage bytes that a page allocates, in steps of 1 KiB
     * @param live bytes that stay
     */
    public Garbage(long perPage, long live) {
        chainsPerPage = Math.toIntExact((perPage + CHAIN_BYTES - 1) / CHAIN_BYTES);
        this.live = new AtomicReferenceArray<>(Math.max(1, Math.toIntExact(live / CHAIN_BYTES)));
        for (int i = 0; i < this.live.length(); i++) {
            this.live.set(i, chain());
        }
    }

    public void page() {
        for (int i = 0; i < chainsPerPage; i++) {
            live.set(ThreadLocalRandom.current().nextInt(live.length()), chain());
        }
    }

    private static Link chain() {
        Link chain = null;
        for (int i = 0; i < LINKS; i++) {
            // 16 bytes of header and 8 of fields in the link; 16 of header and 24 of content in the
            // array
            chain = new Link(chain, new byte[24]);
        }
        return chain;
    }
}
