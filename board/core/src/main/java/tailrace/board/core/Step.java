package tailrace.board.core;

import java.util.Iterator;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What a page does next: ask the database and go on with the rows, or be done.
 *
 * <p>A page written as steps does not know whether somebody waits for the rows. The blocking edge loops over the steps,
 * the asynchronous one goes on from one to the next when the rows arrive; both give the same bytes.
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

    /** The page of something that is not there (404) or not allowed (403). */
    static Step refuse(int status, String title, String reason) {
        return new Done(Answer.refusal(status, title, reason));
    }

    /** One query for each item, one after another, then what follows. */
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
