package tailrace.board.core;

/** Pages about users. */
final class Users {
    private Users() {}

    static Step registration(Request request) {
        Html html = new Html("Register").add("<form action=\"/RegisterUser\">\n");
        html.add("<label>First name <input name=\"firstname\" maxlength=\"{}\" required></label>\n", Limits.NAME);
        html.add("<label>Last name <input name=\"lastname\" maxlength=\"{}\" required></label>\n", Limits.NAME);
        html.add("<label>E-mail <input name=\"email\" maxlength=\"{}\" required></label>\n", Limits.EMAIL);
        credentials(html);
        return Step.done(html.add("<button>Register</button>\n</form>\n"));
    }

    static Step register(Request request) {
        String nickname = request.parameters().text("nickname", Limits.NAME);
        Query taken = Query.of("SELECT id FROM users WHERE nickname = ?", nickname);
        Query insert = Query.of(
                "INSERT INTO users (firstname, lastname, nickname, password, email, rating,"
                        + " access, creation_date) VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
                request.parameters().text("firstname", Limits.NAME),
                request.parameters().text("lastname", Limits.NAME),
                nickname,
                request.parameters().text("password", Limits.NAME),
                request.parameters().text("email", Limits.EMAIL),
                request.now());
        Query back = Query.of(
                "SELECT id, firstname, lastname, nickname, email, rating, access,"
                        + " creation_date FROM users WHERE nickname = ?",
                nickname);
        return Step.ask(
                taken,
                users -> users.isEmpty()
                        ? Step.ask(insert, stored -> Step.ask(back, rows -> welcome(rows.get(0))))
                        : Step.refuse(
                                409,
                                "Nickname taken",
                                "The nickname " + nickname + " is somebody else's; please choose another."));
    }

    private static Step welcome(Row user) {
        Html html = new Html("Welcome").add("<p>You are now user {}.</p>\n<dl>\n", user.number("id"));
        html.add("<dt>Name</dt><dd>{} {}</dd>\n", user.text("firstname"), user.text("lastname"));
        html.add(
                "<dt>Nickname</dt><dd>{}</dd>\n<dt>E-mail</dt><dd>{}</dd>\n",
                user.text("nickname"),
                user.text("email"));
        html.add(
                "<dt>Rating</dt><dd>{}</dd>\n<dt>Since</dt><dd>{}</dd>\n</dl>\n",
                user.number("rating"),
                user.text("creation_date"));
        return Step.done(html);
    }

    static Step authorLogin(Request request) {
        Html html = new Html("Authors").add("<form action=\"/AuthorTask\">\n");
        credentials(html);
        return Step.done(html.add("<button>Log in</button>\n</form>\n"));
    }

    static Step authorTask(Request request) {
        return Authors.authorized(
                request,
                author -> Step.done(new Html("Tasks of an author")
                        .add(
                                "<p>You are author {}.</p>\n"
                                        + "<p><a href=\"/ReviewStories\">Review"
                                        + " submitted stories</a></p>\n",
                                author.number("id"))));
    }

    /** The fields of a form that identify its sender. */
    static void credentials(Html html) {
        html.add("<label>Nickname <input name=\"nickname\" maxlength=\"{}\" required></label>\n", Limits.NAME);
        html.add(
                "<label>Password <input name=\"password\" type=\"password\" maxlength=\"{}\"" + " required></label>\n",
                Limits.NAME);
    }
}
