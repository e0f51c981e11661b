package tailrace.board.core;

import java.util.Iterator;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The next step of a page: a query, whose rows the page continues with, or the end.
 *
 * <p>A page written as steps does not know whether a thread waits for the rows. The blocking edge loops over the steps,
 * and the asynchronous one continues when the rows arrive; both give the same bytes.
 */
public sealed interface Step {
    record Ask(Query query, Function<List<Row>, Step> then) implements Step {}

    record Done(Answer answer) implements Step {}

    static Step ask(Query query, Function<List<Row>, Step> then) {
        return new Ask(query, then);
    }

    static Step done(Html page) {
        return new Done(page.answer(200));
    }

    /** The page for something that does not exist (404) or is not allowed (403). */
    static Step refuse(int status, String title, String reason) {
        return new Done(Answer.refusal(status, title, reason));
    }

    /** One query for each item, one after another, then the next step. */
    static <T> Step each(
            Iterator<T> items, Function<T, Query> query, BiConsumer<T, List<Row>> take, Supplier<Step> then) {
        if (!items.hasNext()) {
            return then.get();
        }
        T item = items.next();
        return ask(query.apply(item), rows -> {
            take.accept(item, rows);
            return each(items, query, take, then);
        });
    }
}
