// A server of Google Cloud Storage for tests: fake-gcs-server, with the writes of the XML interface.
//
// Spark's connector uses the JSON interface, which that server has. obstore and delta-rs write by the XML interface, of which it
// reads and lists alone. So what they write is asked of the same server by JSON, with the same condition: which of two writers
// wins is decided under its one lock, whichever interface each of them used.
package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// json answers of the server that are passed on as headers.
type object struct {
	Etag       string `json:"etag"`
	Generation string `json:"generation"`
}

type door struct {
	json  http.Handler
	host  string
	lock  sync.Mutex
	parts map[string]map[string][]byte
	count int
}

func main() {
	address := flag.String("address", "", "host:port on loopback")
	bucket := flag.String("bucket", "", "the bucket that is there")
	flag.Parse()
	itself := url.URL{Scheme: "http", Host: *address}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, Scheme: itself.Scheme, ExternalURL: itself.String(), PublicHost: itself.Host, Writer: io.Discard,
	})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: *bucket})
	log.Fatal(http.ListenAndServe(*address, &door{json: server.HTTPHandler(), host: *address, parts: map[string]map[string][]byte{}}))
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, prefix := range []string{"/storage/", "/upload/", "/download/", "/batch/", "/_internal/"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			d.json.ServeHTTP(w, r)
			return
		}
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && query.Has("uploads"):
		d.begin(w)
	case r.Method == http.MethodPut && query.Has("uploadId"):
		d.keep(w, query.Get("uploadId"), query.Get("partNumber"), r.Body)
	case r.Method == http.MethodPost && query.Has("uploadId"):
		d.finish(w, r, bucket, key, query.Get("uploadId"))
	case r.Method == http.MethodDelete && query.Has("uploadId"):
		d.forget(query.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut && r.Header.Get("x-goog-copy-source") != "":
		d.copy(w, r, bucket, key)
	case r.Method == http.MethodPut:
		answer := d.upload(r, bucket, key, r.Body)
		passOn(w, answer, nil)
	case r.Method == http.MethodDelete:
		d.json.ServeHTTP(w, d.request(r, http.MethodDelete, "/storage/v1/b/"+bucket+"/o/"+url.PathEscape(key), nil, strings.NewReader("")))
	default:
		r.Host = d.host // by which it knows requests of this interface; a proxy has another
		if r.Method == http.MethodGet && query.Has("start-after") {
			d.listAfter(w, r, query.Get("start-after"))
			return
		}
		d.json.ServeHTTP(w, r)
	}
}

var listed = regexp.MustCompile(`(?s)<Contents>.*?<Key>(.*?)</Key>.*?</Contents>`)

// The server lists all whatever a list begins after, and delta-rs takes a commit that it knows for one too many.
func (d *door) listAfter(w http.ResponseWriter, r *http.Request, after string) {
	answer := httptest.NewRecorder()
	d.json.ServeHTTP(answer, r)
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	io.WriteString(w, listed.ReplaceAllStringFunc(answer.Body.String(), func(entry string) string {
		if html.UnescapeString(listed.FindStringSubmatch(entry)[1]) <= after {
			return ""
		}
		return entry
	}))
}

// request returns a request of the JSON interface in the place of one of the XML interface.
func (d *door) request(r *http.Request, method, path string, query url.Values, body io.Reader) *http.Request {
	made, err := http.NewRequestWithContext(r.Context(), method, path+"?"+query.Encode(), body)
	if err != nil {
		log.Fatal(err)
	}
	made.Host, made.RequestURI = r.Host, made.URL.RequestURI()
	return made
}

func (d *door) upload(r *http.Request, bucket, key string, body io.Reader) *httptest.ResponseRecorder {
	query := url.Values{"uploadType": {"media"}, "name": {key}}
	if generation := r.Header.Get("x-goog-if-generation-match"); generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	asked := d.request(r, http.MethodPost, "/upload/storage/v1/b/"+bucket+"/o", query, body)
	asked.Header.Set("Content-Type", "application/octet-stream")
	answer := httptest.NewRecorder()
	d.json.ServeHTTP(answer, asked)
	return answer
}

func (d *door) copy(w http.ResponseWriter, r *http.Request, bucket, key string) {
	source, err := url.PathUnescape(r.Header.Get("x-goog-copy-source"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	from, name, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	path := fmt.Sprintf("/storage/v1/b/%s/o/%s/rewriteTo/b/%s/o/%s", from, url.PathEscape(name), bucket, url.PathEscape(key))
	query := url.Values{}
	if generation := r.Header.Get("x-goog-if-generation-match"); generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	answer := httptest.NewRecorder()
	d.json.ServeHTTP(answer, d.request(r, http.MethodPost, path, query, strings.NewReader("")))
	passOn(w, answer, nil)
}

func (d *door) begin(w http.ResponseWriter) {
	d.lock.Lock()
	d.count++
	id := fmt.Sprint(d.count)
	d.parts[id] = map[string][]byte{}
	d.lock.Unlock()
	fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
}

func (d *door) keep(w http.ResponseWriter, id, number string, body io.Reader) {
	content, err := io.ReadAll(body)
	d.lock.Lock()
	defer d.lock.Unlock()
	parts, found := d.parts[id]
	if err != nil || !found {
		http.Error(w, "no such upload", http.StatusNotFound)
		return
	}
	parts[fmt.Sprintf("%010s", number)] = content
	w.Header().Set("ETag", fmt.Sprintf("%q", number))
}

func (d *door) finish(w http.ResponseWriter, r *http.Request, bucket, key, id string) {
	d.lock.Lock()
	parts := d.parts[id]
	delete(d.parts, id)
	d.lock.Unlock()
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	var whole bytes.Buffer
	for _, name := range names {
		whole.Write(parts[name])
	}
	passOn(w, d.upload(r, bucket, key, &whole), func(found object) any {
		return struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			ETag    string
		}{ETag: found.Etag}
	})
}

func (d *door) forget(id string) {
	d.lock.Lock()
	defer d.lock.Unlock()
	delete(d.parts, id)
}

// passOn answers as the XML interface does: the tag and the generation are headers.
func passOn(w http.ResponseWriter, answer *httptest.ResponseRecorder, body func(object) any) {
	content := answer.Body.Bytes()
	if answer.Code >= http.StatusMultipleChoices {
		w.WriteHeader(answer.Code)
		w.Write(content)
		return
	}
	var found object
	var rewritten struct {
		Resource *object `json:"resource"`
	}
	if json.Unmarshal(content, &rewritten) == nil && rewritten.Resource != nil {
		found = *rewritten.Resource
	} else if err := json.Unmarshal(content, &found); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", found.Etag))
	w.Header().Set("x-goog-generation", found.Generation)
	if body != nil {
		xml.NewEncoder(w).Encode(body(found))
	}
}
