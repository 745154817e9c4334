// One client of redsync or of etcd's own lock. It reads one JSON command per line and answers each with one line.
// Its first line says that it is ready.
//
// A validity counts from when the command was read. redsync is behind the build tag `redsync`, because its source may
// be missing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"
)

type target struct {
	Library   string `json:"library"`
	Ports     []int  `json:"ports"`
	Sentinels []int  `json:"sentinels"`
	Primary   string `json:"primary"`
	TTL       int    `json:"ttl"`
}

type command struct {
	Op   string `json:"op"`
	Name string `json:"name"`
	Wait int    `json:"wait"`
}

type answer struct {
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	Valid  int64  `json:"valid,omitempty"`
	Fence  int64  `json:"fence,omitempty"`
}

type locker interface {
	acquire(name string, wait time.Duration, begin time.Time) answer
	extend(begin time.Time) answer
	release() answer
	// Stops any renewal in the background, as the death or a pause of the process would.
	abandon()
}

func failed(err error) answer { return answer{Result: "failed", Reason: err.Error()} }

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// The constructors of the lockers, by the name of the library.
var lockers = map[string]func(target) locker{"etcd": newEtcdLock}

func main() {
	var t target
	if err := json.Unmarshal([]byte(os.Args[1]), &t); err != nil {
		log.Fatal(err)
	}
	create, found := lockers[t.Library]
	if !found {
		log.Fatalf("unknown library %q; expected etcd, or redsync in a build with the tag redsync", t.Library)
	}
	lock := create(t)
	answers := json.NewEncoder(os.Stdout)
	reply := func(a answer) {
		if err := answers.Encode(a); err != nil {
			log.Fatal(err)
		}
	}
	reply(answer{Result: "ready"})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		begin := time.Now()
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			log.Fatal(err)
		}
		result := answer{Result: "abandoned"}
		switch c.Op {
		case "acquire":
			result = lock.acquire(c.Name, time.Duration(c.Wait)*time.Millisecond, begin)
		case "extend":
			result = lock.extend(begin)
		case "release":
			result = lock.release()
		case "abandon":
			lock.abandon()
		}
		reply(result)
	}
}
