package tailrace.board.core;

/** The rows of a long list that a page shows. */
record Paging(long page, long rows) {
    /** Deep enough for any list, and its offset is a whole number of the database. */
    private static final long PAGE_MAX = 1_000_000;

    static Paging of(Request request) {
        return new Paging(
                request.parameters().number("page", 0, PAGE_MAX, 0),
                request.parameters().number("nbOfStories", 1, Limits.ROWS_MAX, Limits.ROWS));
    }

    long first() {
        return page * rows;
    }

    /**
     * Links to the pages before and after.
     *
     * @param link an encoded link with at least one parameter
     * @param found how many rows there were on this page
     */
    Html links(Html html, String link, int found) {
        html.add("<p>");
        if (page > 0) {
            html.add("<a href=\"{}\">Previous page</a> ", target(link, page - 1));
        }
        if (found == rows) {
            html.add("<a href=\"{}\">Next page</a>", target(link, page + 1));
        }
        return html.add("</p>\n");
    }

    private String target(String link, long to) {
        return link + "&page=" + to + "&nbOfStories=" + rows;
    }
}
