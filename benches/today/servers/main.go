// The servers in Go: the origin that is frozen, a proxy before it, and an application before a database.
//
//	today origin ADDRESS           a page of 1 kB, over HTTP/1.1 and over HTTP/2 without TLS
//	today proxy ADDRESS ORIGIN     httputil's reverse proxy, with http2 as a fourth word over HTTP/2 to the origin
//	today rows ADDRESS DATABASE    a page from one query, by database/sql as it is
package main

import (
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"
)

var page = []byte(strings.Repeat("All work and no play makes Jack a dull boy.\n", 24))

func origin() http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { answer.Write(page) })
}

func proxy(at string, http2 bool) (http.Handler, error) {
	target, err := url.Parse("http://" + at)
	if err != nil {
		return nil, err
	}
	to := httputil.NewSingleHostReverseProxy(target)
	if http2 {
		to.Transport = &http.Transport{Protocols: protocols(false)}
	}
	return to, nil
}

func rows(database string) (http.Handler, error) {
	pool, err := sql.Open("pgx", database)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		var text string
		if err := pool.QueryRowContext(request.Context(), "SELECT repeat('x', 1000)").Scan(&text); err != nil {
			http.Error(answer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(answer, text)
	}), nil
}

// protocols are HTTP/2 without TLS, and HTTP/1.1 beside it for servers.
func protocols(both bool) *http.Protocols {
	found := new(http.Protocols)
	found.SetUnencryptedHTTP2(true)
	found.SetHTTP1(both)
	return found
}

func handler(words []string) (http.Handler, error) {
	switch {
	case len(words) == 2 && words[0] == "origin":
		return origin(), nil
	case len(words) == 3 && words[0] == "proxy":
		return proxy(words[2], false)
	case len(words) == 4 && words[0] == "proxy" && words[3] == "http2":
		return proxy(words[2], true)
	case len(words) == 3 && words[0] == "rows":
		return rows(words[2])
	}
	return nil, fmt.Errorf("origin ADDRESS, proxy ADDRESS ORIGIN [http2], or rows ADDRESS DATABASE; got %q", words)
}

func main() {
	serves, err := handler(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: os.Args[2], Handler: serves, Protocols: protocols(true)}
	log.Fatal(server.ListenAndServe())
}
