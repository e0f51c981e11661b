package tailrace.board.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CostsTest {
    @Test
    void tenTimesTheWorkTakesAboutTenTimesTheCpu() {
        Work work = new Work(Work.calibrated());
        long little = cpu(work, 5_000_000);
        long much = cpu(work, 50_000_000);
        assertTrue(much > 3 * little && much < 30 * little, little + " " + much);
    }

    /** CPU time of this thread, which other work on the machine does not count into. */
    private static long cpu(Work work, long ns) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long begun = threads.getCurrentThreadCpuTime();
        work.burn(ns);
        return threads.getCurrentThreadCpuTime() - begun;
    }

    @Test
    void aLineOfTheLogHasTheBytesItShallHave(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("log");
        try (AccessLog log = new AccessLog(file, 200)) {
            log.write("ViewStory", 200);
            log.write("Browse", 503);
        }
        List<String> lines = Files.readAllLines(file);
        assertEquals(List.of(199, 199), lines.stream().map(String::length).toList());
        assertTrue(lines.get(1).stripTrailing().endsWith(" Browse 503"), lines.get(1));
    }

    @Test
    void aLogThatCannotBeWrittenKeepsNobodyWaiting() throws Exception {
        Path full = Path.of("/dev/full");
        org.junit.jupiter.api.Assumptions.assumeTrue(Files.exists(full));
        try (AccessLog log = new AccessLog(full, 100)) {
            log.write("Browse", 200);
            log.write("Browse", 200);
        }
    }
}
