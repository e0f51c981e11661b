package tailrace.board.core;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/** A page under construction. Values in a template are escaped; templates themselves are not. */
final class Html {
    private static final String HEAD =
            """
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{} - Bulletin board</title>
<style>
body { font: 16px/1.5 sans-serif; color: #222; background: #fff; max-width: 52rem; margin: auto; padding: 1rem }
nav a { margin-right: 1rem } img { vertical-align: middle; margin-right: 1rem }
a { color: #0b4f8a } article { border-top: 1px solid #ccc } .by { color: #555 }
th, td { text-align: left; padding: 0 1rem 0 0 } label { display: block }
</style>
</head>
<body>
<header><nav aria-label="Board"><img src="/logo.png" width="96" height="48" alt=""><a \
href="/StoriesOfTheDay">Today</a><a href="/Browse">Browse</a><a href="/Search">Search</a><a \
href="/SubmitStory">Submit</a><a href="/Register">Register</a><a href="/AuthorLogin">Authors</a></nav></header>
<main>
<h1>{}</h1>
""";
    private static final String FOOT = "</main>\n</body>\n</html>\n";

    private final StringBuilder page = new StringBuilder(8192);

    Html(String title) {
        add(HEAD, title, title);
    }

    /** Adds a template; each {@code {}} is the next value. */
    Html add(String template, Object... values) {
        int from = 0;
        for (Object value : values) {
            int mark = template.indexOf("{}", from);
            if (mark < 0) {
                throw new IllegalArgumentException("too many values for " + template);
            }
            page.append(template, from, mark);
            escape(value.toString());
            from = mark + 2;
        }
        page.append(template, from, template.length());
        return this;
    }

    Answer answer(int status) {
        return Answer.html(status, page + FOOT);
    }

    /** For a value in the query of a link. */
    static String encoded(String value) {
        return URLEncoder.encode(value, StandardCharsets.UTF_8);
    }

    private void escape(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '&' -> page.append("&amp;");
                case '<' -> page.append("&lt;");
                case '>' -> page.append("&gt;");
                case '"' -> page.append("&quot;");
                case '\'' -> page.append("&#39;");
                default -> page.append(c);
            }
        }
    }
}
