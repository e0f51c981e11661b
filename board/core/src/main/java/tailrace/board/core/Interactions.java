package tailrace.board.core;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/** RUBBoS's 24 interactions, in its order, and which of them are light in the plain and in the joined form. */
public final class Interactions {
    private static final boolean LIGHT = true;
    private static final boolean HEAVY = false;

    public static final List<Interaction> ALL = List.of(
            new Interaction("StoriesOfTheDay", HEAVY, LIGHT, Stories::today),
            new Interaction("Register", LIGHT, LIGHT, Users::registration),
            new Interaction("RegisterUser", LIGHT, HEAVY, Users::register),
            new Interaction("Browse", LIGHT, LIGHT, Stories::browse),
            new Interaction("BrowseCategories", LIGHT, LIGHT, Stories::categories),
            new Interaction("BrowseStoriesInCategory", LIGHT, LIGHT, Stories::inCategory),
            new Interaction("OlderStories", HEAVY, LIGHT, Stories::older),
            new Interaction("ViewStory", HEAVY, HEAVY, Stories::view),
            new Interaction("PostComment", LIGHT, LIGHT, Comments::form),
            new Interaction("StoreComment", LIGHT, HEAVY, Comments::store),
            new Interaction("ViewComment", LIGHT, HEAVY, Comments::view),
            new Interaction("ModerateComment", LIGHT, LIGHT, Comments::moderation),
            new Interaction("StoreModerateLog", LIGHT, HEAVY, Comments::moderate),
            new Interaction("SubmitStory", LIGHT, LIGHT, Submissions::form),
            new Interaction("StoreStory", LIGHT, HEAVY, Submissions::store),
            new Interaction("Search", LIGHT, LIGHT, Searches::form),
            new Interaction("SearchInStories", HEAVY, LIGHT, Searches::stories),
            new Interaction("SearchInComments", HEAVY, LIGHT, Searches::comments),
            new Interaction("SearchInUsers", HEAVY, LIGHT, Searches::users),
            new Interaction("AuthorLogin", LIGHT, LIGHT, Users::authorLogin),
            new Interaction("AuthorTask", LIGHT, LIGHT, Users::authorTask),
            new Interaction("ReviewStories", LIGHT, LIGHT, Submissions::review),
            new Interaction("AcceptStory", LIGHT, HEAVY, Submissions::accept),
            new Interaction("RejectStory", LIGHT, HEAVY, Submissions::reject));

    public static final Map<String, Interaction> BY_NAME =
            ALL.stream().collect(Collectors.toUnmodifiableMap(Interaction::name, Function.identity()));

    /** How many of their servlets make queries: five of the pages have none, and one servlet makes three. */
    public static final int ASKING = ALL.size() - 5 - 2;

    private Interactions() {}
}
