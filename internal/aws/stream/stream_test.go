package stream

import (
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/projections"
)

// TestDecode: the records are as DynamoDB and as LocalStack write them.
func TestDecode(t *testing.T) {
	queue := events.QueueID{0x01, 0x8b, 15: 0xff}
	shard := projections.Shard{Queue: queue, Index: 0x1a}
	const aws = `{"awsRegion":"eu-west-1","eventID":"6f1d9f5c-6f3b-4d5f-8d8e-0c8f6c1a2b3c","eventName":"INSERT","userIdentity":null,"recordFormat":"application/json","tableName":"leaselog-log",` +
		`"dynamodb":{"ApproximateCreationDateTime":1796083200123456,"ApproximateCreationDateTimePrecision":"MICROSECOND","Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"41"}},` +
		`"NewImage":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"41"},"w":{"N":"10"},"c":{"B":"AAAA"},"h":{"B":"AAAA"},"d":{"B":"c2VhbGVk"},"x":{"N":"1797379200"}},"SizeBytes":311},"eventSource":"aws:dynamodb"}`
	const emulator = `{"tableName": "leaselog-log", "recordFormat": "application/json", "userIdentity": null, "eventID": "a1", "dynamodb": {"ApproximateCreationDateTime": 1796083200, "SizeBytes": 9, ` +
		`"Keys": {"s": {"S": "018b00000000000000000000000000ff/001a/ledger"}, "n": {"N": "7"}}, "NewImage": {"n": {"N": "7"}, "w": {"N": "1"}}}, "awsRegion": "eu-west-1", "eventSource": "aws:dynamodb", "eventName": "INSERT"}`
	for name, c := range map[string]struct {
		data  string
		wakes bool
		reach projections.Ends
	}{
		"DynamoDB":         {aws, true, projections.Ends{Messages: 51}},
		"LocalStack":       {emulator, true, projections.Ends{Ledger: 8}},
		"a removal":        {`{"eventName":"REMOVE","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"41"}}}}`, false, projections.Ends{}},
		"a chunk":          {`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":" AAAA/018b00000000000000000000000000ff/001a/m0"},"n":{"N":"0"}},"NewImage":{"d":{"B":""}}}}`, false, projections.Ends{}},
		"an entry dropped": {`{"eventName":"MODIFY","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"41"}},"NewImage":{"w":{"N":"1"},"z":{"BOOL":true}}}}`, true, projections.Ends{Messages: 42}},
	} {
		w, wakes, err := Decode([]byte(c.data))
		if at := w.At / 1000; err != nil || wakes != c.wakes || w.Reach != c.reach || wakes && w.Shard != shard ||
			strings.Contains(c.data, "ApproximateCreationDateTime") && at != 1_796_083_200 {
			t.Errorf("%s gives %+v, %t, %v", name, w, wakes, err)
		}
	}
	for _, data := range []string{``, `7`, `null`, `{}`, `{"eventName":"INSERT","dynamodb":{"Keys":{"p":{"S":"queue/"}}}}`,
		`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"a"},"n":{"N":"0"}},"NewImage":{"w":{"N":"1"}}}}`,
		`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m1"},"n":{"N":"0"}},"NewImage":{"w":{"N":"1"}}}}`,
		`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"-1"}},"NewImage":{"w":{"N":"1"}}}}`,
		`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"1"}},"NewImage":{}}}`} {
		if w, wakes, err := Decode([]byte(data)); err == nil {
			t.Errorf("%s gives %+v, %t", data, w, wakes)
		}
	}
}

// FuzzDecode: whatever comes, there is an answer.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"018b00000000000000000000000000ff/001a/m0"},"n":{"N":"1"}},"NewImage":{"w":{"N":"1"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, wakes, err := Decode(data); wakes && (err != nil || w.Reach == projections.Ends{} && len(data) == 0) {
			t.Errorf("%+v, %v", w, err)
		}
	})
}
