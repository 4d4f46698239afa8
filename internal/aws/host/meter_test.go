package host

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// meter stands between one process and AWS, and adds up what its calls take. Units are those that the emulator reports,
// which internal/aws/store's TestConsumed holds to DynamoDB's definitions; what it does not report is computed.
type meter struct {
	mu   sync.Mutex
	used usage
}

// taken gives what was used since the last time.
func (m *meter) taken() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used
	m.used = usage{}
	return u
}

// metered starts a meter before AWS and gives its URL.
func (c *cloud) metered(m *meter) string {
	target, err := url.Parse(c.endpoint)
	c.must(err)
	pass := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		answer.Body = new(bytes.Buffer)
		pass.ServeHTTP(answer, r)
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		m.mu.Lock()
		err := m.used.call(operation, body, answer.Code, answer.Body.Bytes())
		m.mu.Unlock()
		if err != nil {
			c.Errorf("%s: %v", operation, err)
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	c.Cleanup(server.Close)
	return server.URL
}

type consumed struct {
	TableName     string
	CapacityUnits float64
}

// put is a Put of DynamoDB, alone or in a transaction.
type put struct {
	TableName string
	Item      map[string]map[string]string
}

func (u *usage) call(operation string, body []byte, status int, answer []byte) error {
	u.calls++
	switch operation {
	case "Decrypt", "GenerateDataKey", "DescribeKey":
		u.kms++
		return nil
	}
	if status != http.StatusOK {
		u.lost++
		return nil
	}
	units, err := reported(answer)
	if err != nil {
		return err
	}
	if operation == "GetItem" || operation == "Query" {
		u.reads += units["log"] + units["views"]
		u.claimReads += units["claims"]
		return nil
	}
	u.writes += units["log"] + units["views"]
	u.claimWrites += units["claims"]
	return u.changed(operation, body)
}

// changed counts the changes that a write made.
func (u *usage) changed(operation string, body []byte) error {
	switch operation {
	case "PutItem":
		p := new(put)
		if err := json.Unmarshal(body, p); err != nil {
			return err
		}
		u.change(p)
	case "TransactWriteItems":
		var in struct{ TransactItems []struct{ Put *put } }
		if err := json.Unmarshal(body, &in); err != nil {
			return err
		}
		for _, t := range in.TransactItems {
			if t.Put != nil {
				u.change(t.Put)
			}
		}
	}
	return nil
}

// reported gives units by the kind of their table.
func reported(answer []byte) (map[string]float64, error) {
	var out struct{ ConsumedCapacity json.RawMessage }
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, err
	}
	var all []consumed
	if err := json.Unmarshal(out.ConsumedCapacity, &all); err != nil {
		all = make([]consumed, 1)
		if err := json.Unmarshal(out.ConsumedCapacity, &all[0]); err != nil {
			return nil, err
		}
	}
	units := map[string]float64{}
	for _, c := range all {
		units[c.TableName[strings.LastIndexByte(c.TableName, '-')+1:]] += c.CapacityUnits
	}
	return units, nil
}

// change counts what an item of the log is besides its write: a change that is captured and streamed when it is written
// and again when it expires, and storage in between.
func (u *usage) change(p *put) {
	if !strings.HasSuffix(p.TableName, "-log") {
		return
	}
	size := 0
	for name, value := range p.Item {
		size += len(name)
		for kind, text := range value {
			switch kind {
			case "B":
				size += len(text) / 4 * 3
			case "N":
				size += 1 + (len(strings.Trim(text, "0"))+1)/2
			default:
				size += len(text)
			}
		}
	}
	const times = 2
	u.stored += float64(size + itemExtraBytes)
	u.changes += times * math.Ceil(float64(size)/1024)
	u.streamed += times * 1024 * math.Ceil(float64(len(record(p, size)))/1024)
}

// record is a change as it stands in the stream: an item's keys and the item.
func record(p *put, size int) []byte {
	text, err := json.Marshal(map[string]any{"awsRegion": "us-east-1", "eventID": "2f1b7b0c-5f0e-4ab3-9a61-0b6e8d3e7d42", "eventName": "INSERT",
		"userIdentity": nil, "recordFormat": "application/json", "tableName": p.TableName, "eventSource": "aws:dynamodb",
		"dynamodb": map[string]any{"ApproximateCreationDateTime": 1796078414000123, "Keys": map[string]any{"s": p.Item["s"], "n": p.Item["n"]},
			"NewImage": p.Item, "SizeBytes": size, "ApproximateCreationDateTimePrecision": "MICROSECOND"}})
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}
